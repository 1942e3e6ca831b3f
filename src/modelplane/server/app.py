"""One API server, from a data directory to an open port and back.

`start` runs it inside the caller's event loop; the command `modelplane apiserver` is a thin layer over it.
"""

from __future__ import annotations

import asyncio
import base64
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from modelplane.api.meta import GVK
from modelplane.errors import PermanentError
from modelplane.server import bootstrap, custom, expiry
from modelplane.server.admission import Admission, Review
from modelplane.server.application import Application
from modelplane.server.authn import Authenticator, keep_secret, read_token_file, write_secretly
from modelplane.server.authz import Authorizer
from modelplane.server.builtin import resource_types
from modelplane.server.call import Backend
from modelplane.server.connection import Connections
from modelplane.server.registry import Registry
from modelplane.server.reviews import REVIEWS
from modelplane.server.store import Store
from modelplane.server.tls import ensure_certificates


@dataclass(frozen=True)
class Options:
    """How to start. ``crds`` are files or directories of CustomResourceDefinitions to install."""

    data_dir: Path
    host: str = "127.0.0.1"
    port: int = 0
    """Zero takes the port of the last start in this directory, or any free one."""
    crds: Sequence[Path] = ()
    install_crds: bool = True
    """Whether to install the CustomResourceDefinitions that come with the project."""
    token_file: Path | None = None
    reviews: Mapping[GVK, Review] = field(default_factory=lambda: REVIEWS)
    """What schemas cannot say, by kind; those of the project's own kinds if nothing else is given."""


class ApiServer:
    """A running server; made by `start`."""

    def __init__(
        self,
        backend: Backend,
        definitions: custom.Definitions,
        connections: Connections,
        listener: socket.socket,
        options: Options,
    ) -> None:
        self.backend = backend
        self._definitions = definitions
        self.port: int = listener.getsockname()[1]
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(options.host, options.host)
        host = f"[{host}]" if ":" in host else host
        self.url = f"https://{host}:{self.port}"
        self.kubeconfig = options.data_dir / "admin.kubeconfig"
        self._connections = connections
        self._sweeping = asyncio.create_task(expiry.sweep_forever(backend.store))

    async def stop(self) -> None:
        """End open watches, finish what runs, write what is queued."""
        self.backend.stopping = True
        self.backend.store.wake_all()
        await self._connections.stop()
        self._sweeping.cancel()
        await asyncio.gather(self._sweeping, return_exceptions=True)
        await self._definitions.stop()
        await self.backend.store.close()


async def start(options: Options) -> ApiServer:
    """Open the directory and serve. Raises PermanentError: taken or damaged files, a port that is in use."""
    directory = options.data_dir
    store = Store.open(directory)
    try:
        hosts = [options.host] if options.host not in ("0.0.0.0", "::") else []
        await asyncio.to_thread(ensure_certificates, directory, hosts)
        token = keep_secret(directory / "admin.token").decode()
        users = read_token_file(options.token_file) if options.token_file else {}
        backend = Backend(
            store=store,
            registry=Registry(resource_types()),
            authenticator=Authenticator(store, token, keep_secret(directory / "service-account.key", 48), users),
            authorizer=Authorizer(store),
            admission=Admission(options.reviews),
        )
        definitions = custom.Definitions(backend)
        definitions.start()
        await bootstrap.ensure(backend)
        wanted = [*(custom.shipped() if options.install_crds else ()), *custom.from_files(options.crds)]
        await custom.install(backend, {definition["metadata"]["name"]: definition for definition in wanted}.values())
        listener = _listen(directory, options.host, options.port)
    except BaseException:
        await store.close()
        raise
    connections = Connections(Application(backend))
    await connections.listen(listener, directory / "serving.crt", directory / "serving.key")
    server = ApiServer(backend, definitions, connections, listener, options)
    write_secretly(server.kubeconfig, kubeconfig(server.url, (directory / "ca.crt").read_bytes(), token))
    return server


def _listen(directory: Path, host: str, port: int) -> socket.socket:
    remembered = directory / "port"
    wanted = [port] if port else []
    if not port and remembered.exists() and (last := remembered.read_bytes().strip()).isdigit():
        wanted.append(int(last))  # a file that holds something else is as good as none
    if not port:
        wanted.append(0)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for each in wanted:
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, each))
            listener.listen(1024)
        except OSError as error:
            listener.close()
            if each == wanted[-1]:
                raise PermanentError(
                    f"cannot listen on {host}:{each}: {error.strerror}; free the port or choose another --port"
                ) from error
            continue
        listener.setblocking(False)
        write_secretly(remembered, str(listener.getsockname()[1]).encode())
        return listener
    raise AssertionError("unreachable")


def kubeconfig(url: str, authority: bytes, token: str, name: str = "modelplane") -> bytes:
    """A kubeconfig for one user with a token."""
    authority_text = base64.b64encode(authority).decode()
    return (
        "apiVersion: v1\nkind: Config\n"
        f"clusters:\n- name: {name}\n  cluster:\n    server: {url}\n    certificate-authority-data: {authority_text}\n"
        f"users:\n- name: admin\n  user:\n    token: {token}\n"
        f"contexts:\n- name: {name}\n  context:\n    cluster: {name}\n    user: admin\n"
        f"current-context: {name}\n"
    ).encode()
