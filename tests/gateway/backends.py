"""Real HTTP backends for gateway tests: they answer with their name and what they saw, and can be told to misbehave."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable

import orjson


class Backend:
    """One server on a free port of 127.0.0.1. `status` and `healthy` may be changed while it runs."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.port = 0
        self.status = 200
        self.silent = False
        self.healthy: Callable[[str], bool] = lambda path: True
        self.seen: list[tuple[str, str, dict[str, str]]] = []
        self.checks: list[str] = []
        self.gate = asyncio.Event()
        """Set to let a stream go on after its first event."""
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    async def start(self, port: int = 0, tls: ssl.SSLContext | None = None) -> Backend:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port, ssl=tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def stop(self) -> None:
        """Die at once: the port refuses, open connections break."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in list(self._writers):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                method, path, _ = head[0].split(" ", 2)
                headers = {}
                for line in filter(None, head[1:]):
                    name, _, value = line.partition(":")
                    headers[name.lower()] = value.strip()
                await reader.readexactly(int(headers.get("content-length", 0)))
                if path.endswith("/health"):
                    self.checks.append(path)
                    await self._answer(writer, 200 if self.healthy(path) else 503, b"{}")
                elif path.endswith("/stream"):
                    self.seen.append((method, path, headers))
                    await self._stream(writer)
                elif self.silent:
                    self.seen.append((method, path, headers))
                    await asyncio.Event().wait()
                else:
                    self.seen.append((method, path, headers))
                    body = {"name": self.name, "method": method, "path": path, "headers": headers}
                    await self._answer(writer, self.status, orjson.dumps(body))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _answer(self, writer: asyncio.StreamWriter, status: int, body: bytes) -> None:
        head = (
            f"HTTP/1.1 {status} X",
            f"content-length: {len(body)}",
            "content-type: application/json",
            f"x-backend: {self.name}",
            "\r\n",
        )
        writer.write("\r\n".join(head).encode() + body)
        await writer.drain()

    async def _stream(self, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        for number, data in enumerate((b"data: first\n\n", b"data: last\n\n")):
            if number:
                await self.gate.wait()
            writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            await writer.drain()
        writer.write(b"0\r\n\r\n")
        await writer.drain()
