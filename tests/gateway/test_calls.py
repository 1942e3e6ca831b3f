"""The wire form of calls, against an independent HTTP/2 client."""

from __future__ import annotations

import asyncio
from pathlib import Path

import h2.config
import h2.connection
import h2.events
import pytest

from modelplane.gateway.proxies import socket_directory
from modelplane.gateway.xds.calls import Call, CallServer


class Client:
    """One connection, driven by hand."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.http = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
        self.http.initiate_connection()
        self.headers: dict[str, str] = {}
        self.body = bytearray()
        self.ended = False

    async def call(self, path: str) -> int:
        stream = self.http.get_next_available_stream_id()
        fields = {
            ":method": "POST",
            ":path": path,
            ":scheme": "http",
            ":authority": "x",
            "content-type": "application/grpc",
        }
        self.http.send_headers(stream, list(fields.items()))
        await self.flush()
        return stream

    async def flush(self) -> None:
        self.writer.write(self.http.data_to_send())
        await self.writer.drain()

    async def read(self, *, done) -> None:
        async with asyncio.timeout(20):
            while not done():
                data = await self.reader.read(65536)
                if not data:
                    self.ended = True
                    return
                for event in self.http.receive_data(data):
                    if isinstance(event, h2.events.ResponseReceived | h2.events.TrailersReceived):
                        self.headers.update(event.headers)
                    elif isinstance(event, h2.events.DataReceived):
                        self.body += event.data
                        self.http.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                    elif isinstance(event, h2.events.StreamEnded):
                        self.ended = True
                await self.flush()


def framed(message: bytes) -> bytes:
    return b"\0" + len(message).to_bytes(4) + message


@pytest.fixture
async def client(tmp_path: Path):
    async def echo(call: Call) -> None:
        async for message in call:
            await call.write(message * 1000)

    folder = socket_directory(tmp_path)
    folder.mkdir(exist_ok=True)
    server = CallServer(folder / "calls.sock", {"/echo": echo})
    await server.start()
    made = Client(*await asyncio.open_unix_connection(str(folder / "calls.sock")))
    yield made
    made.writer.close()
    await server.stop()


async def test_messages_come_whole_however_they_are_cut_and_large_answers_wait_for_the_reader(client: Client) -> None:
    stream = await client.call("/echo")
    first, second = b"a" * 300, b"b"
    data = framed(first) + framed(second)
    for cut in (data[:3], data[3:200], data[200:307], data[307:]):
        client.http.send_data(stream, cut)
        await client.flush()
    wanted = framed(first * 1000) + framed(second * 1000)
    await client.read(done=lambda: len(client.body) == len(wanted))
    assert bytes(client.body) == wanted
    client.http.end_stream(stream)
    await client.flush()
    await client.read(done=lambda: client.ended)
    assert client.headers["grpc-status"] == "0"


async def test_an_unknown_method_is_unimplemented(client: Client) -> None:
    await client.call("/other")
    await client.read(done=lambda: client.ended)
    assert client.headers["grpc-status"] == "12"


async def test_a_compressed_message_ends_the_connection_because_it_was_never_offered(client: Client) -> None:
    stream = await client.call("/echo")
    client.http.send_data(stream, b"\1" + (1).to_bytes(4) + b"x")
    await client.flush()
    await client.read(done=lambda: client.ended)
    assert client.body == b""


async def test_what_is_no_http2_ends_the_connection(client: Client) -> None:
    client.writer.write(b"GET / HTTP/1.1\r\n\r\n" * 3)
    await client.read(done=lambda: client.ended)
    assert client.ended
