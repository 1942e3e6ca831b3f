"""`/healthz`, `/readyz` and `/metrics` for whoever supervises the operator: a few lines of HTTP, not a web framework in memory."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import TypeAlias

from modelplane.operator.listening import listen

Check: TypeAlias = Callable[[], str]
"""Returns what is wrong, empty for nothing."""
Page: TypeAlias = tuple[str, Callable[[], str]]
"""A content type, and what gives the text."""


class Health:
    """Answers GET of the checks' paths with 200 ``ok`` or 503 and the reason, and of the pages' with their text."""

    def __init__(self, checks: Mapping[str, Check], pages: Mapping[str, Page] | None = None) -> None:
        self._checks = checks
        self._pages = pages or {}
        self._server: asyncio.Server | None = None
        self.port = 0

    async def start(self, port: int, host: str = "127.0.0.1") -> None:
        """Raises PermanentError where the port cannot be had."""
        self._server, self.port = await listen(self._serve, host, port, "--health-port")

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            async with asyncio.timeout(5):
                head = await reader.readuntil(b"\r\n\r\n")
                parts = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
                path = parts[1].partition("?")[0] if len(parts) == 3 else ""
                status, kind, text = self._answer(parts[0], path)
                body = text.encode()
                allow = "Allow: GET, HEAD\r\n" if status.startswith("405") else ""
                writer.write(
                    f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{allow}"
                    "Connection: close\r\n\r\n".encode()
                    + (b"" if parts[0] == "HEAD" else body)
                )
                await writer.drain()
        writer.close()

    def _answer(self, method: str, path: str) -> tuple[str, str, str]:
        """Status line, content type and body."""
        if method not in ("GET", "HEAD") and (path in self._pages or path in self._checks):
            return "405 Method Not Allowed", "text/plain", f"{path} is read with GET\n"
        if path in self._pages:
            kind, text = self._pages[path]
            return "200 OK", kind, text()
        check = self._checks.get(path)
        problem = "no such path" if check is None else check()
        status = "404 Not Found" if check is None else "503 Service Unavailable" if problem else "200 OK"
        return status, "text/plain", f"{problem or 'ok'}\n"
