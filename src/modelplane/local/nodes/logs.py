"""The kubelet's log endpoint: `GET /containerLogs/{namespace}/{pod}/{container}` over HTTPS with a certificate of its own.

It listens on loopback only and, like a kubelet without client authentication, trusts whoever can reach it. Lines carry their
time on disk; it is shown only when asked for.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, unquote

from modelplane.local import clock
from modelplane.local.engines.http import Connection, Exchange

POLL: Final = 0.1
PREFIX: Final = "/containerLogs/"
STREAMS: Final = {"exec": "exec", "run": "exec", "attach": "attach", "portForward": "portforward"}
"""What a kubelet has besides, and the subresource of a pod that asks for it."""


@dataclass(frozen=True, slots=True)
class LogQuery:
    """What `kubectl logs` asks for."""

    tail: int | None = None
    follow: bool = False
    timestamps: bool = False
    previous: bool = False
    since: datetime.datetime | None = None
    limit: int | None = None

    @classmethod
    def parse(cls, query: str) -> LogQuery:
        """Raises ValueError with the parameter's name."""
        values = {key: found[-1] for key, found in parse_qs(query).items()}

        def number(name: str) -> int | None:
            if name not in values:
                return None
            if not values[name].isdigit():
                raise ValueError(f"{name}: not a number of 0 or more")
            return int(values[name])

        seconds = number("sinceSeconds")
        since = clock.read(values.get("sinceTime"))
        if seconds is not None:
            since = clock.now() - datetime.timedelta(seconds=seconds)
        return cls(
            tail=number("tailLines"),
            follow=values.get("follow") in ("true", "1"),
            timestamps=values.get("timestamps") in ("true", "1"),
            previous=values.get("previous") in ("true", "1"),
            since=since,
            limit=number("limitBytes"),
        )


def select(data: bytes, query: LogQuery) -> bytes:
    """The part of a log that a query asks for."""
    lines = data.splitlines(keepends=True)
    if query.since is not None:
        lines = [line for line in lines if _at(line) >= query.since]
    if query.tail is not None:
        lines = lines[len(lines) - query.tail :] if query.tail < len(lines) else lines
    text = b"".join(line if query.timestamps else _bare(line) for line in lines)
    return text if query.limit is None else text[: query.limit]


def _at(line: bytes) -> datetime.datetime:
    """The time of a line; one without counts as now."""
    word = line.split(b" ", 1)[0].decode("ascii", "replace")
    try:
        moment = datetime.datetime.fromisoformat(word[:26].rstrip("Z") + "+00:00")
    except ValueError:
        return clock.now()
    return moment


def _bare(line: bytes) -> bytes:
    word, space, rest = line.partition(b" ")
    return rest if space and word[:2] == b"20" and word.endswith(b"Z") and b"T" in word else line


@dataclass(frozen=True, slots=True)
class Source:
    """Log files of one container: of this run and the one before; `ended` says that nothing will follow."""

    current: Path
    previous: Path | None
    ended: Callable[[], bool]


class LogServer:
    """Serves logs of the containers that `find(namespace, pod, container)` knows."""

    def __init__(self, find: Callable[[str, str, str], Source | str], certificate: Path, key: Path) -> None:
        self._find = find
        self._certificate = certificate
        self._key = key
        self._open: set[Connection] = set()
        self._server: asyncio.Server | None = None

    async def start(self, port: int = 0) -> int:
        """Listen on loopback; the port. A wanted port that is taken is replaced by a free one."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._certificate, self._key)
        loop = asyncio.get_running_loop()

        def connect() -> Connection:
            return Connection(self._handle, self._open)

        try:
            self._server = await loop.create_server(connect, "127.0.0.1", port, ssl=context)
        except OSError:
            self._server = await loop.create_server(connect, "127.0.0.1", 0, ssl=context)
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for connection in list(self._open):
            connection.abort()

    async def _handle(self, exchange: Exchange) -> None:
        path = exchange.request.path
        parts = [unquote(part) for part in path.removeprefix(PREFIX).split("/")]
        if path == "/healthz":
            exchange.send(200, b"ok", "text/plain")
            return
        asked = STREAMS.get(path.strip("/").partition("/")[0])
        if asked is not None:
            told = (
                f"pods/{asked} is not served by simulated nodes: they have no streams into containers. "
                "Read what a pod prints with `kubectl logs`; reach it at its own address."
            )
            exchange.send(501, f"{told}\n".encode(), "text/plain")
            return
        if not path.startswith(PREFIX) or len(parts) != 3:
            exchange.send(
                404, f"{path}: this endpoint serves {PREFIX}NAMESPACE/POD/CONTAINER only\n".encode(), "text/plain"
            )
            return
        try:
            query = LogQuery.parse(exchange.request.query)
        except ValueError as error:
            exchange.send(400, f"{error}\n".encode(), "text/plain")
            return
        source = self._find(*parts)
        if isinstance(source, str):
            exchange.send(404, f"{source}\n".encode(), "text/plain")
            return
        file = source.current
        if query.previous:
            if source.previous is None:
                text = f'previous terminated container "{parts[2]}" in pod "{parts[1]}" not found\n'
                exchange.send(400, text.encode(), "text/plain")
                return
            file = source.previous
        data = file.read_bytes() if file.exists() else b""
        exchange.start_stream("text/plain")
        text_ = select(data, query)
        if text_:
            exchange.write(text_)
        if query.follow and not query.previous:
            await self._follow(exchange, source, query, len(data), len(text_))
        exchange.end_stream()

    async def _follow(self, exchange: Exchange, source: Source, query: LogQuery, at: int, sent: int) -> None:
        rest = LogQuery(timestamps=query.timestamps)
        while not exchange.gone and (query.limit is None or sent < query.limit):
            over = source.ended()
            with contextlib.suppress(OSError):
                with source.current.open("rb") as file:
                    file.seek(at)
                    fresh = file.read()
                whole = fresh if over else fresh[: fresh.rfind(b"\n") + 1]
                at += len(whole)
                text = select(whole, rest)
                if query.limit is not None:
                    text = text[: query.limit - sent]
                if text:
                    sent += len(text)
                    exchange.write(text)
            if over:
                return
            await asyncio.sleep(POLL)
