"""A real Kubernetes control plane instead of ours: etcd, kube-apiserver, kube-controller-manager, kube-scheduler as processes.

The referee of everything that we wrote ourselves. The binaries are built elsewhere (`make kubernetes`) and only started here; every
one listens on loopback alone.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
import yaml

from modelplane.errors import PermanentError
from modelplane.local.bootstrap import write_private
from modelplane.local.supervisor import Unit

BINARIES: Final = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
SERVICE_RANGE: Final = "10.96.0.0/16"


class Ports(msgspec.Struct, frozen=True):
    """Of one control plane, all on 127.0.0.1."""

    etcd: int
    etcd_peer: int
    apiserver: int
    controller_manager: int
    scheduler: int

    @classmethod
    def of(cls, ports: dict[str, int]) -> Ports:
        """Raises KeyError when one is missing; `names` says which it takes."""
        return cls(*(ports[name] for name in cls.names()))

    @classmethod
    def names(cls) -> tuple[str, ...]:
        return cls.__struct_fields__


class ControlPlane:
    """The files and units of one control plane in a directory of its own. ``needs`` are the binaries that will run."""

    def __init__(
        self,
        binaries: Path,
        root: Path,
        ports: Ports,
        *,
        name: str = "kubernetes",
        durable: bool = True,
        needs: Sequence[str] = BINARIES,
    ) -> None:
        missing = [binary for binary in needs if not (binaries / binary).exists()]
        if missing:
            raise PermanentError(f"{binaries} lacks {', '.join(missing)}; build them with `make kubernetes`")
        self.root = root
        self._binaries = binaries
        self._ports = ports
        self._name = name
        self._durable = durable

    @property
    def server(self) -> str:
        return f"https://127.0.0.1:{self._ports.apiserver}"

    @property
    def kubeconfig(self) -> Path:
        """Of an administrator; complete once the API server has written its certificate."""
        return self.root / "admin.kubeconfig"

    def prepare(self) -> None:
        """Write keys and tokens, once: a restarted control plane keeps its identities."""
        self.root.mkdir(parents=True, exist_ok=True)
        if not (self.root / "service-account.key").exists():
            private, public = _key_pair()
            write_private(self.root / "service-account.key", private)
            write_private(self.root / "service-account.pub", public)
        tokens = self.root / "tokens.csv"
        if not tokens.exists():
            write_private(tokens, f'{secrets.token_urlsafe(32)},admin,admin,"system:masters"\n')

    def write_kubeconfig(self) -> bool:
        """True once the kubeconfig is written; the serving certificate that it trusts is made by the API server itself."""
        certificate = self.root / "certificates" / "apiserver.crt"
        # It is written in place, and the key after it: before the key is there, what is read may be half of it, or nothing.
        if not (certificate.with_suffix(".key").exists() and certificate.exists()):
            return False
        cluster = {"server": self.server, "certificate-authority-data": _base64(certificate.read_bytes())}
        user = {"token": (self.root / "tokens.csv").read_text().partition(",")[0]}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": self._name, "cluster": cluster}],
            "users": [{"name": "admin", "user": user}],
            "contexts": [{"name": self._name, "context": {"cluster": self._name, "user": "admin"}}],
            "current-context": self._name,
        }
        write_private(self.kubeconfig, yaml.safe_dump(config))
        return True

    def etcd(self) -> Unit:
        client, peer = f"http://127.0.0.1:{self._ports.etcd}", f"http://127.0.0.1:{self._ports.etcd_peer}"
        return self._unit(
            "etcd",
            data_dir=self.root / "etcd",
            listen_client_urls=client,
            advertise_client_urls=client,
            listen_peer_urls=peer,
            initial_advertise_peer_urls=peer,
            initial_cluster=f"default={peer}",
            log_level="warn",
            **({} if self._durable else {"unsafe_no_fsync": "true"}),
        )

    def apiserver(self) -> Unit:
        return self._unit(
            "kube-apiserver",
            etcd_servers=f"http://127.0.0.1:{self._ports.etcd}",
            bind_address="127.0.0.1",
            advertise_address="127.0.0.1",
            secure_port=self._ports.apiserver,
            cert_dir=self.root / "certificates",
            service_account_key_file=self.root / "service-account.pub",
            service_account_signing_key_file=self.root / "service-account.key",
            service_account_issuer="https://kubernetes.default.svc",
            service_cluster_ip_range=SERVICE_RANGE,
            token_auth_file=self.root / "tokens.csv",
            authorization_mode="RBAC",
            allow_privileged="true",
            endpoint_reconciler_type="none",
            # Names of simulated nodes are in no DNS: their logs are fetched from their address.
            kubelet_preferred_address_types="InternalIP",
        )

    def controller_manager(self) -> Unit:
        return self._unit(
            "kube-controller-manager",
            kubeconfig=self.kubeconfig,
            use_service_account_credentials="true",
            service_account_private_key_file=self.root / "service-account.key",
            root_ca_file=self.root / "certificates" / "apiserver.crt",
            leader_elect="false",
            bind_address="127.0.0.1",
            secure_port=self._ports.controller_manager,
            cert_dir=self.root / "certificates-kcm",
        )

    def scheduler(self) -> Unit:
        return self._unit(
            "kube-scheduler",
            kubeconfig=self.kubeconfig,
            leader_elect="false",
            bind_address="127.0.0.1",
            secure_port=self._ports.scheduler,
            cert_dir=self.root / "certificates-scheduler",
        )

    def _unit(self, binary: str, **flags: object) -> Unit:
        name = f"{self._name}-{binary}"
        arguments = (f"--{flag.replace('_', '-')}={value}" for flag, value in flags.items())
        return Unit(
            name=name,
            argv=(str(self._binaries / binary), *arguments),
            log=self.root / "logs" / f"{binary}.log",
            record=self.root / "run" / f"{binary}.json",
        )


def _key_pair() -> tuple[str, str]:
    """A key for service account tokens, as PEM: private and public. Of an elliptic curve: one of RSA takes a third of a second."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return private.decode(), public.decode()


def _base64(data: bytes) -> str:
    import base64

    return base64.b64encode(data).decode()
