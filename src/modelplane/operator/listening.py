"""Opening a port of the operator: a port or an address that cannot be had is said with the option that chooses another."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from modelplane.errors import PermanentError

Serve: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def listen(
    serve: Serve, host: str, port: int, option: str, context: ssl.SSLContext | None = None
) -> tuple[asyncio.Server, int]:
    """The server and its port. Raises PermanentError; ``option`` is the one that the port came by."""
    try:
        server = await asyncio.start_server(serve, host, port, ssl=context, limit=64 << 10)
    except OSError as error:
        raise PermanentError(_why(error, host, port, option)) from error
    return server, server.sockets[0].getsockname()[1]


def _why(error: OSError, host: str, port: int, option: str) -> str:
    if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
        return f"{host or 'an empty address'} is no address of this machine; choose another with --health-address"
    if error.errno == errno.EADDRINUSE:
        return f"port {port} of {host} is taken; choose another with {option}"
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"port {port} of {host} is not for this user; choose one above 1023 with {option}"
    return f"port {port} of {host} cannot be opened ({error.strerror or error}); choose another with {option}"
