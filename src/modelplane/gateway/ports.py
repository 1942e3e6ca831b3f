"""Which port of this machine a listener takes, chosen once and kept, because addresses are published.

The port asked for is a wish: 80 needs privileges and can be had once. A listener that cannot have it gets a free
port, and the same one again after every restart, unless somebody else has taken it meanwhile.
"""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path

import msgspec


class KeptPorts:
    """Ports by name, in a JSON file."""

    def __init__(self, path: Path, address: str = "127.0.0.1") -> None:
        self._path = path
        self._address = address
        self._ports: dict[str, int] = {}
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            self._ports = msgspec.json.decode(path.read_bytes(), type=dict[str, int])

    def get(self, name: str) -> int | None:
        return self._ports.get(name)

    def take(self, name: str, wish: int = 0, *, ours: bool = False) -> int:
        """The port of `name`: the kept one if it is free (or `ours` already), else the wish, else any free one."""
        kept = self._ports.get(name)
        if kept is not None and (ours or self._free(kept)):
            return kept
        taken = set(self._ports.values())
        port = wish if wish and wish not in taken and self._free(wish) else 0
        while not port:
            with socket.create_server((self._address, 0)) as opened:
                candidate: int = opened.getsockname()[1]
            port = candidate if candidate not in taken else 0
        self._ports[name] = port
        self._path.parent.mkdir(parents=True, exist_ok=True)
        scratch = self._path.with_suffix(".tmp")
        scratch.write_bytes(msgspec.json.encode(self._ports))
        scratch.replace(self._path)
        return port

    def _free(self, port: int) -> bool:
        try:
            socket.create_server((self._address, port)).close()
        except OSError:
            return False
        return True
