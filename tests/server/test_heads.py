"""A block of header fields that was read before means what it meant, whatever else is in the bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from modelplane.server import connection
from modelplane.server.application import Application
from modelplane.server.call import Answer
from modelplane.server.connection import Connection, Connections

Seen = tuple[str, str, tuple[tuple[str, str], ...], bytes]


class Recorder:
    """An application that answers everything, and keeps what it was asked."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []

    async def answer(self, method: str, url: str, headers: Sequence[tuple[str, str]], body: bytes) -> Any:
        self.seen.append((method, url, tuple(headers), body))
        return Answer(200, b"{}"), ()


class Client(asyncio.Transport):
    """The other end: what is written, less what differs by time and number, and whether the connection was ended."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data).partition(b"\r\n")[0])

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


async def exchanged(every: Connections, recorder: Recorder, pieces: Sequence[bytes]) -> tuple[list[Seen], Client]:
    """What the application of ``every`` is asked when a new client sends these pieces."""
    recorder.seen = []
    client, one = Client(), Connection(cast(Application, recorder), every)
    one.connection_made(client)
    for piece in pieces:
        if client.closed:
            break
        one.get_buffer(-1)[: len(piece)] = piece
        one.buffer_updated(len(piece))
        while not one.idle:
            await asyncio.sleep(0)
    one.connection_lost(None)
    await asyncio.sleep(0)
    return recorder.seen, client


def both(pieces: Sequence[bytes], first: Sequence[bytes]) -> None:
    """The same comes of them to one who has read ``first`` before and to one who remembers nothing."""

    async def run() -> None:
        recorder = Recorder()
        every = Connections(cast(Application, recorder))
        await exchanged(every, recorder, first)
        told, client = await exchanged(every, recorder, pieces)
        every.heads = Forgetful()
        fresh, other = await exchanged(every, recorder, pieces)
        assert told == fresh
        assert (client.written, client.closed) == (other.written, other.closed)

    asyncio.run(run())


class Forgetful(dict[bytes, Any]):
    def __setitem__(self, key: bytes, value: object) -> None: ...


def request(line: bytes, fields: Sequence[bytes], body: bytes) -> bytes:
    return b"\r\n".join((line, *fields, b"", b"")) + body


USUAL = (b"Host: a", b"Content-Length: 2")
FIRST = [request(b"POST /api/v1/pods?x=1 HTTP/1.1", USUAL, b"{}")]


def test_a_block_is_read_once_and_then_known() -> None:
    async def run() -> None:
        recorder = Recorder()
        every = Connections(cast(Application, recorder))
        await exchanged(every, recorder, FIRST)
        assert [(head.headers, head.size) for head in every.heads.values()] == [
            ([("host", "a"), ("content-length", "2")], 2)
        ]
        every.heads = {block: head._replace(headers=[("known", "yes")]) for block, head in every.heads.items()}
        again, _ = await exchanged(every, recorder, [request(b"PUT /other HTTP/1.1", USUAL, b"[]")])
        assert again == [("PUT", "/other", (("known", "yes"),), b"[]")]

    asyncio.run(run())


@pytest.mark.parametrize(
    ("reason", "pieces"),
    [
        ("the body comes later", [request(b"POST /a HTTP/1.1", USUAL, b"{"), b"}"]),
        ("more comes behind it", [request(b"POST /a HTTP/1.1", USUAL, b"{}GET /b HTTP/1.1\r\n\r\n")]),
        ("the body is longer than told", [request(b"POST /a HTTP/1.1", USUAL, b"{}{}")]),
        ("a space in the path", [request(b"POST /a b HTTP/1.1", USUAL, b"{}")]),
        ("no path", [request(b"POST HTTP/1.1", USUAL, b"{}")]),
        ("a whole URL", [request(b"POST http://a/b HTTP/1.1", USUAL, b"{}")]),
        ("a method of nobody", [request(b"FETCH /a HTTP/1.1", USUAL, b"{}")]),
        ("another version", [request(b"POST /a HTTP/1.0", USUAL, b"{}")]),
        ("a version of nobody", [request(b"POST /a HTTP/3.7", USUAL, b"{}")]),
        ("a line feed in the line", [request(b"POST /a\n HTTP/1.1", USUAL, b"{}")]),
        ("an empty line before it", [b"\r\n" + request(b"POST /a HTTP/1.1", USUAL, b"{}")]),
        ("it ends the connection", [request(b"GET /a HTTP/1.1", (b"Connection: close",), b"")] * 2),
        ("it waits to be told to go on", [request(b"POST /a HTTP/1.1", (b"Expect: 100-continue", *USUAL), b"{}")] * 2),
        ("it comes in pieces", [request(b"POST /a HTTP/1.1", (b"Transfer-Encoding: chunked",), b"0\r\n\r\n")] * 2),
        ("it wants another protocol", [request(b"GET /a HTTP/1.1", (b"Connection: upgrade", b"Upgrade: x"), b"")] * 2),
        ("it is the rest of another one", [request(b"POST /a HTTP/1.1", USUAL, b""), request(b"G", USUAL, b"{}")]),
    ],
)
def test_what_only_begins_like_a_known_request_is_read_as_ever(reason: str, pieces: list[bytes]) -> None:
    both(pieces, FIRST)


LINES = st.sampled_from(
    [
        b"GET /a HTTP/1.1", b"POST /a?b=%20 HTTP/1.1", b"PATCH /a HTTP/1.0", b"DELETE /\xc3 HTTP/1.1", b"HEAD /a#b HTTP/1.1",
        b"OPTIONS * HTTP/1.1", b"GET  /a HTTP/1.1", b"\r\nGET /a HTTP/1.1", b"CONNECT a:1 HTTP/1.1",
    ]
)  # fmt: skip
FIELDS = st.sampled_from(
    [
        (b"Host: a",), (b"Host: a", b"Content-Length: 3"), (b"Content-Length: 0",), (b"Transfer-Encoding: chunked",),
        (b"Connection: close",), (b"Connection: keep-alive", b"Content-Length: 1"), (b"Expect: 100-continue",),
        (b"Upgrade: x", b"Connection: upgrade"), (b"Content-Length: 1", b"Content-Length: 2"), (b"no colon",), (),
        (b"Content-Length: 1", b"Transfer-Encoding: chunked"), (b"X: \xff",), (b"A: b\nContent-Length: 1",),
    ]
)  # fmt: skip
BODIES = st.sampled_from([b"", b"{", b"{}\n", b"1\r\na\r\n0\r\n\r\n", b"GET /b HTTP/1.1\r\n\r\n", b"\r\n\r\n"])
REQUESTS = st.lists(st.builds(request, LINES, FIELDS, BODIES), min_size=1, max_size=4)


@given(first=REQUESTS, sent=REQUESTS, cuts=st.lists(st.integers(0, 120), max_size=3))
@example(first=FIRST, sent=FIRST, cuts=[]).via("the usual case")
def test_any_bytes_mean_the_same_to_one_who_has_read_others_before(
    first: list[bytes], sent: list[bytes], cuts: list[int]
) -> None:
    whole = b"".join(sent)
    places = sorted({0, *(cut for cut in cuts if cut < len(whole)), len(whole)})
    pieces = [whole[start:end] for start, end in pairwise(places)]
    both(sent, first)
    both(pieces, [*first, *sent])


def test_no_more_is_remembered_than_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "HEADS", 3)

    async def run() -> int:
        recorder = Recorder()
        every = Connections(cast(Application, recorder))
        for number in range(10):
            await exchanged(every, recorder, [request(b"GET /a HTTP/1.1", (b"X: %d" % number,), b"")])
        return len(every.heads)

    assert 0 < asyncio.run(run()) <= 3
