"""The mock engine itself: loading, answering, failing on demand, and leaving politely.

After SIGTERM new requests are still answered for a moment (routing needs time to hear of it), each with
`connection: close`; then the listener closes, running requests finish, and the process exits 0.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import Final, NoReturn

from .dialects import CHAT, COMPLETIONS, MESSAGES, BadRequest, Prompt, Reply, answer, error_body, read_prompt, tokens
from .http import Connection, Exchange
from .metrics import Metrics
from .settings import Settings

INFERENCE: Final = (CHAT, COMPLETIONS, MESSAGES)
COUNT_TOKENS: Final = MESSAGES + "/count_tokens"
READABLE: Final = ("/health", "/ping", "/metrics", "/v1/models", "/version")
JSON: Final = "application/json"


class Engine:
    """One engine on one listening socket. `reload` is asked for fresh settings on SIGHUP."""

    def __init__(self, settings: Settings, reload: Callable[[], Settings] | None = None) -> None:
        self.settings = settings
        self.metrics = Metrics()
        self._reload = reload
        self._started = time.monotonic()
        self._served = 0
        self._failed = 0.0
        self._connections: set[Connection] = set()
        self._slot = asyncio.Condition()
        self._stopping = asyncio.Event()

    async def run(self, listener: socket.socket) -> None:
        """Serve until SIGTERM or SIGINT, then drain."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._stopping.set)
        loop.add_signal_handler(signal.SIGINT, self._stopping.set)
        loop.add_signal_handler(signal.SIGHUP, self._read_again)
        server = await loop.create_server(lambda: Connection(self._handle, self._connections), sock=listener)
        self._log(
            f"serving {', '.join(self.settings.models) or 'no model'} on {self.settings.host}:{self.settings.port}"
        )
        if self.settings.behaviour.load_seconds:
            self._log(f"loading takes {self.settings.behaviour.load_seconds:g} s")
        if self.settings.behaviour.crash_after_seconds:
            loop.call_later(self.settings.behaviour.crash_after_seconds, self._crash, "crash-after-seconds")
        await self._stopping.wait()
        await self._drain(server)

    @property
    def loaded(self) -> bool:
        return time.monotonic() - self._started >= self.settings.behaviour.load_seconds

    async def _drain(self, server: asyncio.Server) -> None:
        self._log("SIGTERM: draining")
        for connection in self._connections:
            connection.closing = True
        until = time.monotonic() + self.settings.behaviour.drain_seconds
        while time.monotonic() < until:
            await asyncio.sleep(min(0.02, max(0.0, until - time.monotonic())))
            for connection in self._connections:
                connection.closing = True
        server.close()
        while self._connections:
            for connection in list(self._connections):
                connection.closing = True
                if connection.idle:
                    connection.close()
            await asyncio.sleep(0.01)
        self._log("stopped")

    def _read_again(self) -> None:
        if self._reload is not None:
            with contextlib.suppress(OSError, ValueError):
                self.settings = self._reload()
                self._log("settings read again")

    async def _handle(self, exchange: Exchange) -> None:
        path, method = exchange.request.path, exchange.request.method
        behaviour = self.settings.behaviour
        inference = path in INFERENCE or path == COUNT_TOKENS
        if not inference and path not in READABLE:
            return self._error(exchange, 404, f"{path} is not served by a mock engine")
        if method not in (("POST",) if inference else ("GET", "HEAD")):
            return self._error(exchange, 405, f"{method} is not allowed on {path}")
        if behaviour.hang == "all" or (behaviour.hang == "health" and path in ("/health", "/ping")):
            await asyncio.Event().wait()
        if not self.loaded:
            return self._error(exchange, 503, "the model is loading")
        if inference:
            return await self._infer(exchange)
        if path in ("/health", "/ping"):
            return self._send(exchange, behaviour.health_status, b"", "text/plain")
        if path == "/metrics":
            text = self.metrics.render(self.settings.model, behaviour.kv_cache_tokens)
            return self._send(exchange, 200, text, "text/plain; version=0.0.4; charset=utf-8")
        if path == "/version":
            return self._send(exchange, 200, b'{"version": "mock"}', JSON)
        if behaviour.models_status != 200:
            return self._error(exchange, behaviour.models_status, "the mock engine was told to fail /v1/models")
        return self._send(exchange, 200, json.dumps(self._models()).encode(), JSON)

    def _models(self) -> dict[str, object]:
        created = int(time.time() - (time.monotonic() - self._started))
        entries = [
            {"id": name, "object": "model", "created": created, "owned_by": "modelplane", "root": self.settings.model}
            for name in self.settings.models
        ]
        return {"object": "list", "data": entries}

    async def _infer(self, exchange: Exchange) -> None:
        behaviour = self.settings.behaviour
        path = exchange.request.path
        if path == COUNT_TOKENS:
            return self._count(exchange)
        self._served += 1
        if behaviour.crash_after_requests and self._served >= behaviour.crash_after_requests:
            self._crash("crash-after-requests")
        if behaviour.hang == "inference":
            await asyncio.Event().wait()
        if behaviour.fail_status and self._fails():
            return self._error(exchange, behaviour.fail_status, "the mock engine was told to fail by a pod annotation")
        try:
            prompt = read_prompt(path, exchange.request.body)
        except BadRequest as error:
            return self._error(exchange, 400, str(error))
        models = self.settings.models
        if self.settings.strict and prompt.model and prompt.model not in models:
            served = ", ".join(models) or "none"
            return self._error(exchange, 404, f"The model `{prompt.model}` does not exist; served: {served}")
        return await self._generate(exchange, prompt)

    def _count(self, exchange: Exchange) -> None:
        try:
            body = {"input_tokens": len(tokens(read_prompt(MESSAGES, _with_limit(exchange.request.body)).text))}
        except BadRequest as error:
            return self._error(exchange, 400, str(error))
        return self._send(exchange, 200, json.dumps(body).encode(), JSON)

    def _fails(self) -> bool:
        """Spread failures evenly instead of drawing lots, so that a test knows which call fails."""
        self._failed += self.settings.behaviour.fail_rate
        if self._failed >= 1.0 - 1e-9:
            self._failed -= 1.0
            return True
        return False

    async def _generate(self, exchange: Exchange, prompt: Prompt) -> None:
        began = time.monotonic()
        generated, finish = answer(prompt, self.settings.pod, self.settings.behaviour.answer)
        model = prompt.model or next(iter(self.settings.models), self.settings.model)
        reply = Reply(
            os.urandom(12).hex(), int(time.time()), model, prompt, len(tokens(prompt.text)), generated, finish
        )
        metrics = self.metrics
        metrics.waiting += 1
        async with self._slot:
            try:
                await self._slot.wait_for(lambda: metrics.running < max(1, self.settings.behaviour.max_concurrent))
            finally:
                metrics.waiting -= 1
        metrics.running += 1
        metrics.kv_tokens += reply.prompt_tokens
        metrics.prompt_tokens += reply.prompt_tokens
        made = 0
        ended = "abort"
        try:
            async for text in self._paced(generated):
                if made == 0:
                    metrics.first_token.observe(time.monotonic() - began)
                    if prompt.stream:
                        self._open_stream(exchange, reply)
                if prompt.stream:
                    if 0 <= self.settings.behaviour.drop_stream_after_tokens <= made:
                        return exchange.cut()
                    for data in reply.token(text):
                        exchange.write(data)
                made += 1
                metrics.kv_tokens += 1
                metrics.generation_tokens += prompt.choices
            if prompt.stream:
                for data in reply.closing():
                    exchange.write(data)
                exchange.end_stream()
            else:
                self._send(exchange, 200, json.dumps(reply.whole()).encode(), JSON)
            ended = finish
        finally:
            metrics.running -= 1
            metrics.kv_tokens -= reply.prompt_tokens + made
            metrics.finished[ended] += 1
            metrics.latency.observe(time.monotonic() - began)
            if metrics.waiting:
                asyncio.get_running_loop().create_task(self._wake())
        return None

    async def _wake(self) -> None:
        async with self._slot:
            self._slot.notify_all()

    async def _paced(self, generated: list[str]):  # type: ignore[no-untyped-def]  # an async generator's type needs an import of typing's weight
        behaviour = self.settings.behaviour
        if behaviour.first_token_seconds:
            await asyncio.sleep(behaviour.first_token_seconds)
        began = time.monotonic()
        for index, text in enumerate(generated):
            speed = self.settings.behaviour.tokens_per_second
            if speed:
                await asyncio.sleep(max(0.0, began + (index + 1) / speed - time.monotonic()))
            yield text

    def _open_stream(self, exchange: Exchange, reply: Reply) -> None:
        exchange.start_stream("text/event-stream; charset=utf-8", {"x-modelplane-pod": self.settings.pod})
        for data in reply.opening():
            exchange.write(data)

    def _send(self, exchange: Exchange, status: int, body: bytes, content_type: str) -> None:
        exchange.send(status, body, content_type, {"x-modelplane-pod": self.settings.pod})
        if exchange.request.path in INFERENCE or status >= 400:
            self._log(f'"{exchange.request.method} {exchange.request.path} HTTP/1.1" {status}')

    def _error(self, exchange: Exchange, status: int, message: str) -> None:
        self._send(exchange, status, error_body(exchange.request.path, status, message), JSON)

    def _crash(self, why: str) -> NoReturn:
        self._log(f"exit {self.settings.behaviour.exit_code}: annotation {why} asks for a crash")
        os._exit(self.settings.behaviour.exit_code)

    def _log(self, text: str) -> None:
        sys.stdout.write((_moment() + " " if self.settings.stamped else "") + text + "\n")
        sys.stdout.flush()


def _moment() -> str:
    """Now, in RFC 3339 with nanoseconds."""
    seconds, nanoseconds = divmod(time.time_ns(), 1_000_000_000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{nanoseconds:09d}Z"


def _with_limit(body: bytes) -> bytes:
    """count_tokens bodies have no max_tokens; the reader of messages wants one."""
    try:
        data = json.loads(body)
    except ValueError:
        return body
    return json.dumps({"max_tokens": 1, **data}).encode() if isinstance(data, dict) else body


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; the kernel accepts on it from now on, before anybody serves."""
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(1024)
    except OSError:
        listener.close()
        raise
    listener.setblocking(False)
    return listener
