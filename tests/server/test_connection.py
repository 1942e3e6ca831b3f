"""HTTP/1.1 as bytes: what a client may send in other ways than one request after the other, and what it gets."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from modelplane.server.request import MAX_BODY
from tests.server.api import Api, config_map

MAPS = "/api/v1/namespaces/{}/configmaps"


class Wire:
    """One TLS connection, written and read as bytes."""

    def __init__(self, api: Api) -> None:
        parts = urlsplit(api.url)
        unchecked = ssl.create_default_context()
        unchecked.check_hostname = False
        unchecked.verify_mode = ssl.CERT_NONE
        self.socket = unchecked.wrap_socket(socket.create_connection((str(parts.hostname), int(parts.port or 0)), 20))
        self.reader = self.socket.makefile("rb")
        self.token = api.token

    def send(self, method: str, path: str, body: bytes = b"", *lines: str, version: str = "1.1") -> None:
        """A request with its body; ``lines`` are headers besides, and may give the length in another way."""
        told = any(line.startswith(("Transfer-Encoding", "Content-Length")) for line in lines)
        length = () if told else (f"Content-Length: {len(body)}",)
        head = (f"{method} {path} HTTP/{version}", "Host: a", f"Authorization: Bearer {self.token}", *length, *lines)
        self.socket.sendall("\r\n".join((*head, "", "")).encode() + body)

    def head(self) -> tuple[int, dict[str, str]]:
        status = self.reader.readline().split()
        headers = {}
        while line := self.reader.readline().strip():
            name, _, value = line.decode().partition(": ")
            headers[name.lower()] = value
        return int(status[1]), headers

    def answer(self) -> tuple[int, dict[str, str], bytes]:
        code, headers = self.head()
        return code, headers, self.reader.read(int(headers.get("content-length", 0)))

    @property
    def ended(self) -> bool:
        return self.reader.read(1) == b""


@pytest.fixture
def wire(api: Api) -> Iterator[Wire]:
    made = Wire(api)
    yield made
    with contextlib.suppress(OSError):
        made.socket.close()


def test_requests_sent_ahead_are_answered_in_their_order(wire: Wire, api: Api, namespace: str) -> None:
    path = MAPS.format(namespace)
    for number in range(20):
        api.create(path, config_map(f"a{number}", namespace))
    for number in range(20):
        wire.send("GET", f"{path}/a{number}")
    for number in range(20):
        code, _, body = wire.answer()
        assert code == 200
        assert f'"name":"a{number}"'.encode() in body


def test_requests_that_arrive_in_turns_over_two_connections_stay_apart(wire: Wire, api: Api, namespace: str) -> None:
    other = Wire(api)
    path = MAPS.format(namespace)
    bodies = [b'{"metadata":{"name":"%b"},"data":{"of":"%b"}}' % (name, name * 3000) for name in (b"one", b"two")]
    try:
        for each, body in zip((wire, other), bodies, strict=True):
            length = f"Content-Length: {len(body)}"
            each.send("POST", path, body[:20], "Content-Type: application/json", length)
        for start in range(20, max(map(len, bodies)), 1000):
            for each, body in zip((wire, other), bodies, strict=True):
                each.socket.sendall(body[start : start + 1000])
        for each, name in ((wire, b"one"), (other, b"two")):
            code, _, answer = each.answer()
            assert code == 201
            assert b'"of":"%b"' % (name * 3000) in answer
    finally:
        other.socket.close()


def test_a_body_in_pieces_is_one_body(wire: Wire, namespace: str) -> None:
    body = b'{"metadata":{"name":"pieces"}}'
    pieces = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
    wire.send("POST", MAPS.format(namespace), pieces, "Content-Type: application/json", "Transfer-Encoding: chunked")
    assert wire.answer()[0] == 201


def test_a_client_that_asks_before_it_sends_is_told_to_go_on(wire: Wire, namespace: str) -> None:
    body = b'{"metadata":{"name":"asked"}}'
    lines = ("Content-Type: application/json", "Expect: 100-continue", f"Content-Length: {len(body)}")
    wire.send("POST", MAPS.format(namespace), b"", *lines)
    assert wire.head()[0] == 100
    wire.socket.sendall(body)
    assert wire.answer()[0] == 201


def test_head_has_the_length_and_no_body(wire: Wire) -> None:
    wire.send("HEAD", "/version")
    code, headers = wire.head()
    assert (code, int(headers["content-length"]) > 0) == (200, True)
    wire.send("GET", "/healthz")
    assert wire.answer()[2] == b"ok"


@pytest.mark.parametrize(
    ("version", "line", "stays"),
    [("1.1", "X: y", True), ("1.1", "Connection: close", False), ("1.0", "X: y", False)],
    ids=["HTTP/1.1 stays open", "unless the client wants it closed", "HTTP/1.0 closes"],
)
def test_a_connection_ends_when_the_client_wants_it(wire: Wire, version: str, line: str, stays: bool) -> None:
    wire.send("GET", "/healthz", b"", line, version=version)
    code, headers, body = wire.answer()
    assert (code, body, headers.get("connection")) == (200, b"ok", None if stays else "close")
    if stays:
        wire.send("GET", "/healthz")
        assert wire.answer()[0] == 200
    else:
        assert wire.ended


def test_a_stream_to_an_old_client_comes_without_pieces(wire: Wire, namespace: str) -> None:
    wire.send("GET", MAPS.format(namespace) + "?watch=1&timeoutSeconds=1", version="1.0")
    code, headers = wire.head()
    assert (code, "transfer-encoding" in headers) == (200, False)
    assert wire.ended


def test_what_is_no_http_is_refused_and_the_connection_ends(wire: Wire) -> None:
    wire.socket.sendall(b"NONSENSE\r\n\r\n")
    code, headers, _ = wire.answer()
    assert (code, headers["connection"]) == (400, "close")
    assert wire.ended


def test_another_protocol_is_refused_and_the_connection_ends(wire: Wire, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods/none/exec"
    wire.send("POST", path, b"", "Connection: Upgrade", "Upgrade: SPDY/3.1")
    code, headers, _ = wire.answer()
    assert (code, headers["connection"]) == (501, "close")
    assert wire.ended


def test_a_body_too_long_for_any_object_is_refused_and_the_connection_goes_on(wire: Wire, namespace: str) -> None:
    body = b'{"metadata":{"name":"long"},"data":{"x":"' + b"x" * MAX_BODY + b'"}}'
    wire.send("POST", MAPS.format(namespace), body, "Content-Type: application/json")
    assert wire.answer()[0] == 413
    wire.send("GET", "/healthz")
    assert wire.answer()[0] == 200


def test_a_warning_cannot_add_lines_to_the_head(wire: Wire, namespace: str) -> None:
    body = b'{"metadata":{"name":"w"},"a\\r\\nx-evil: 1":"y"}'
    wire.send("POST", MAPS.format(namespace), body, "Content-Type: application/json")
    code, headers, _ = wire.answer()
    assert code == 201
    assert "x-evil" not in headers
    assert "unknown field" in headers["warning"]


def test_a_watcher_that_reads_late_gets_every_change(wire: Wire, api: Api, namespace: str) -> None:
    path = MAPS.format(namespace)
    wire.send("GET", path + "?watch=1")
    assert wire.head()[0] == 200
    for number in range(60):
        api.create(path, config_map(f"big{number}", namespace, x="x" * 60_000))
    seen = b""
    while b'"name":"big59"' not in seen[-200_000:]:
        size = int(wire.reader.readline(), 16)
        seen += wire.reader.read(size)
        wire.reader.readline()
    assert seen.count(b'{"type":"ADDED"') == 60
