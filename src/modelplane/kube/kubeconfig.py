"""Where an API server is and how to be somebody there: kubeconfig files, kubeconfig Secrets, in-cluster accounts.

A file on the user's own machine may name other files. A kubeconfig that came in a Secret may not: a tenant could make us read
our own disk, run a program, or trust any server. Those are refused with the field's name.
"""

from __future__ import annotations

import base64
import binascii
import os
import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from modelplane.errors import InvalidKubeconfig

SERVICE_ACCOUNT_DIR: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")

_UNSAFE_USER: Final = ("exec", "auth-provider", "tokenFile", "client-certificate", "client-key")
_FILES: Final = ("certificate-authority", "client-certificate", "client-key", "tokenFile")
_UNSAFE_CLUSTER: Final = ("certificate-authority", "insecure-skip-tls-verify", "proxy-url")


class Kubeconfig(msgspec.Struct, frozen=True, kw_only=True):
    """One resolved context. ``ca_data`` is PEM, empty for the system's own authorities. Equality is what matters:
    two equal kubeconfigs need one client."""

    server: str
    ca_data: str = ""
    token: str = ""
    token_file: str = ""
    certificate_data: str = ""
    key_data: str = ""
    insecure: bool = False
    server_name: str = ""
    namespace: str = "default"

    @classmethod
    def load(cls, path: str | Path, *, context: str | None = None) -> Kubeconfig:
        """From a file of the user's own machine. Raises InvalidKubeconfig."""
        file = Path(path).expanduser()
        return _resolve(
            _document(_text(file), str(file)), origin=str(file), context=context, trusted=True, base=file.parent
        )

    @classmethod
    def listed(cls, paths: str) -> Kubeconfig:
        """From what $KUBECONFIG has: one file or several, merged as kubectl does it. Of every name, and of current-context, the
        first file counts that has it; a file of several that is not there is left out. Raises InvalidKubeconfig."""
        files = [Path(path).expanduser() for path in paths.split(os.pathsep) if path]
        if len(files) < 2:
            return cls.load(*files or [Path(paths)])
        origin = f"$KUBECONFIG ({os.pathsep.join(map(str, files))})"
        there = [file for file in files if file.exists()]
        if not there:
            raise InvalidKubeconfig(
                f"{origin}: none of these files is there; name one that is, or pass --kubeconfig FILE"
            )
        merged: dict[str, Any] = {}
        for file in there:
            document = _document(_text(file), str(file), whole=False)
            merged.setdefault("current-context", None)
            merged["current-context"] = merged["current-context"] or document.get("current-context")
            for section, entry in (("contexts", "context"), ("clusters", "cluster"), ("users", "user")):
                items = document.get(section)
                for item in items if isinstance(items, list) else ():
                    merged.setdefault(section, []).append(_rooted(item, entry, file.absolute().parent))
        return _resolve(merged, origin=origin, context=None, trusted=True, base=Path())

    @classmethod
    def parse(cls, text: str, *, origin: str = "kubeconfig", context: str | None = None) -> Kubeconfig:
        """From text that the user gave; relative file names are looked up in the working directory."""
        return _resolve(_document(text, origin), origin=origin, context=context, trusted=True, base=Path())

    @classmethod
    def from_secret(cls, text: str, *, origin: str = "the kubeconfig Secret") -> Kubeconfig:
        """From a Secret: everything must be inline. Raises InvalidKubeconfig with the refused field."""
        return _resolve(_document(text, origin), origin=origin, context=None, trusted=False, base=Path())

    @classmethod
    def in_cluster(cls, environment: Mapping[str, str], directory: Path = SERVICE_ACCOUNT_DIR) -> Kubeconfig:
        """The service account that Kubernetes mounts into a pod; the token is read again as it rotates."""
        host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT", "443")
        if not host or not (directory / "token").exists():
            raise InvalidKubeconfig(
                f"not in a cluster: KUBERNETES_SERVICE_HOST or {directory}/token is missing; pass --kubeconfig FILE"
            )
        namespace = directory / "namespace"
        return cls(
            server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
            ca_data=(directory / "ca.crt").read_text(encoding="utf-8"),
            token_file=str(directory / "token"),
            namespace=namespace.read_text(encoding="utf-8").strip() if namespace.exists() else "default",
        )

    def ssl_context(self) -> ssl.SSLContext | None:
        """None for a plain HTTP server. Client certificates touch the disk for as long as the call lasts, since the
        standard library takes only files."""
        if self.server.startswith("http://"):
            return None
        try:
            context = ssl.create_default_context(cadata=self.ca_data or None)
            if self.insecure:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            if self.certificate_data:
                with tempfile.NamedTemporaryFile("w", suffix=".pem") as pem:
                    pem.write(self.certificate_data + "\n" + self.key_data)
                    pem.flush()
                    context.load_cert_chain(pem.name)
        except (ssl.SSLError, ValueError) as error:
            field = "certificate-authority-data" if not self.certificate_data else "client-certificate-data"
            raise InvalidKubeconfig(f"{field} of {self.server} is no valid PEM: {error}", field=field) from error
        return context


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidKubeconfig(f"kubeconfig {file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidKubeconfig(f"kubeconfig {file} cannot be read: it is no text") from error


def _rooted(item: Any, entry: str, base: Path) -> Any:
    """An entry of one of several files, whose relative file names are those of its own folder."""
    if not isinstance(item, Mapping) or not isinstance(item.get(entry), Mapping):
        return item
    files = {name: str(base / str(item[entry][name])) for name in _FILES if item[entry].get(name)}
    return {**item, entry: {**item[entry], **files}}


def _document(text: str, origin: str, *, whole: bool = True) -> Mapping[str, Any]:
    """``whole``: it has to have clusters; one of several files need not."""
    import yaml

    try:
        document = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f" at line {mark.line + 1}" if mark else ""
        raise InvalidKubeconfig(f"{origin} is not YAML{place}; write a kubeconfig with inline credentials") from error
    if not whole and document is None:
        return {}
    if not isinstance(document, Mapping) or (whole and not document.get("clusters")):
        raise InvalidKubeconfig(f"{origin} is no kubeconfig: it has no `clusters`", field="clusters")
    return document


def _named(document: Mapping[str, Any], section: str, name: str, entry: str, origin: str) -> Mapping[str, Any]:
    items = document.get(section) or ()
    for item in items if isinstance(items, list) else ():
        if isinstance(item, Mapping) and item.get("name") == name:
            value = item.get(entry)
            return value if isinstance(value, Mapping) else {}
    raise InvalidKubeconfig(f"{origin} has no entry {name!r} in `{section}`", field=section)


def _resolve(document: Mapping[str, Any], *, origin: str, context: str | None, trusted: bool, base: Path) -> Kubeconfig:
    name = context or document.get("current-context")
    if not name and len(document.get("contexts") or ()) == 1:
        name = document["contexts"][0].get("name")
    if not name:
        raise InvalidKubeconfig(f"{origin} has no current-context", field="current-context")
    chosen = _named(document, "contexts", str(name), "context", origin)
    cluster = _named(document, "clusters", str(chosen.get("cluster", "")), "cluster", origin)
    user = _named(document, "users", str(chosen["user"]), "user", origin) if chosen.get("user") else {}
    if not trusted:
        _refuse(cluster, _UNSAFE_CLUSTER, "cluster", origin)
        _refuse(user, _UNSAFE_USER, "user", origin)
    for field in ("exec", "auth-provider"):
        if user.get(field):
            raise InvalidKubeconfig(
                f"{origin} uses user.{field}, which is not supported; use a token or a client certificate",
                field=f"user.{field}",
            )
    server = str(cluster.get("server") or "").rstrip("/")
    if urlsplit(server).scheme not in ("http", "https") or not urlsplit(server).hostname:
        raise InvalidKubeconfig(f"{origin}: cluster.server {server!r} is no http(s) URL", field="cluster.server")
    token_file = str(user.get("tokenFile") or "")
    return Kubeconfig(
        server=server,
        ca_data=_pem(cluster, "certificate-authority", "cluster", origin, base),
        token=str(user.get("token") or ""),
        token_file=str(base / token_file) if token_file else "",
        certificate_data=_pem(user, "client-certificate", "user", origin, base),
        key_data=_pem(user, "client-key", "user", origin, base),
        insecure=bool(cluster.get("insecure-skip-tls-verify")),
        server_name=str(cluster.get("tls-server-name") or ""),
        namespace=str(chosen.get("namespace") or "default"),
    )


def _refuse(section: Mapping[str, Any], fields: tuple[str, ...], name: str, origin: str) -> None:
    for field in fields:
        if section.get(field):
            raise InvalidKubeconfig(
                f"{origin} is refused: {name}.{field} is not allowed in a Secret; inline the certificate data and a token",
                field=f"{name}.{field}",
            )


def _pem(section: Mapping[str, Any], field: str, name: str, origin: str, base: Path) -> str:
    inline = section.get(f"{field}-data")
    if inline:
        try:
            return base64.b64decode(str(inline), validate=True).decode("ascii")
        except (binascii.Error, ValueError) as error:
            raise InvalidKubeconfig(
                f"{origin}: {name}.{field}-data is not base64", field=f"{name}.{field}-data"
            ) from error
    if not section.get(field):
        return ""
    file = base / str(section[field])
    try:
        return file.read_text(encoding="ascii")
    except (OSError, ValueError) as error:
        raise InvalidKubeconfig(f"{origin}: {name}.{field} {file} cannot be read", field=f"{name}.{field}") from error
