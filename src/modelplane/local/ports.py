"""Ports of the local fleet: chosen free once, kept for good, because Secrets and kubeconfigs hold them."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path

import msgspec


def keep(path: Path, names: Sequence[str]) -> dict[str, int]:
    """A port for each name: what the file has, and a free port of 127.0.0.1 for what it lacks; the file is rewritten."""
    try:
        kept = msgspec.json.decode(path.read_bytes(), type=dict[str, int])
    except FileNotFoundError:
        kept = {}
    missing = [name for name in names if name not in kept]
    # Held open together, so that one call never hands out one port twice.
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in missing]
    for name, opened in zip(missing, sockets, strict=True):
        kept[name] = opened.getsockname()[1]
        opened.close()
    if missing:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.encode(kept))
    return kept
