"""The server's certificate authority and serving certificate, kept in the data directory.

Both are made once: a restart must not change the CA, because kubeconfigs and Secrets hold it. The library that makes
certificates is large, so it runs in a child process that ends.
"""

from __future__ import annotations

import ipaddress
import ssl
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from modelplane.errors import PermanentError

NAMES: Final = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
ADDRESSES: Final = ("127.0.0.1", "::1", "10.96.0.1")
YEARS: Final = 10
_USAGES: Final = (
    "digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
    "key_cert_sign", "crl_sign", "encipher_only", "decipher_only",
)  # fmt: skip


def ensure_certificates(directory: Path, hosts: Sequence[str]) -> None:
    """Make ``ca.crt``, ``ca.key``, ``serving.crt`` and ``serving.key`` where they are missing.

    Raises PermanentError for files that are there and no certificates.
    """
    if all((directory / name).exists() for name in ("ca.crt", "serving.crt", "serving.key")):
        _check(directory)
        return
    made = subprocess.run(
        [sys.executable, "-m", __name__, str(directory), *hosts], capture_output=True, text=True, check=False
    )
    if made.returncode != 0:
        raise PermanentError(f"cannot make certificates in {directory}: {made.stderr.strip()[-500:]}")


def _check(directory: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(directory / "serving.crt", directory / "serving.key")
        context.load_verify_locations(directory / "ca.crt")
    except (ssl.SSLError, OSError) as error:
        raise PermanentError(
            f"the certificates in {directory} cannot be read: {error}. Put back copies of ca.crt, serving.crt and "
            "serving.key, or move them and ca.key away: new ones are made, and clients need the new admin.kubeconfig"
        ) from error


def make_certificates(directory: Path, hosts: Sequence[str]) -> None:
    """Write a new CA and a serving certificate for loopback and ``hosts``. The key files are private to their owner."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    from modelplane.server.authn import write_secretly

    def name(common: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])

    def private(key: ec.EllipticCurvePrivateKey) -> bytes:
        return key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )

    start = datetime.now(UTC) - timedelta(hours=1)
    end = start + timedelta(days=365 * YEARS)
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority_id = x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key())
    usage = dict.fromkeys(_USAGES, False)
    authority = (
        x509.CertificateBuilder()
        .subject_name(name("modelplane-ca"))
        .issuer_name(name("modelplane-ca"))
        .public_key(authority_key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(end)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.KeyUsage(**usage | {"digital_signature": True, "key_cert_sign": True}), critical=True)
        .add_extension(authority_id, critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    alternatives: list[x509.GeneralName] = []
    for host in dict.fromkeys((*NAMES, *ADDRESSES, *hosts)):
        try:
            alternatives.append(x509.IPAddress(ipaddress.ip_address(host)))
        except ValueError:
            alternatives.append(x509.DNSName(host))
    serving_key = ec.generate_private_key(ec.SECP256R1())
    serving = (
        x509.CertificateBuilder()
        .subject_name(name("kube-apiserver"))
        .issuer_name(authority.subject)
        .public_key(serving_key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(end)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.KeyUsage(**usage | {"digital_signature": True}), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(authority_id), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    write_secretly(directory / "ca.key", private(authority_key))
    write_secretly(directory / "serving.key", private(serving_key))
    write_secretly(directory / "serving.crt", serving.public_bytes(serialization.Encoding.PEM))
    write_secretly(directory / "ca.crt", authority.public_bytes(serialization.Encoding.PEM))


if __name__ == "__main__":
    make_certificates(Path(sys.argv[1]), sys.argv[2:])
