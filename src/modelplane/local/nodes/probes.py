"""Startup, readiness and liveness probes of an engine, with the kubelet's timing and words.

The first startup probe goes out at once: the runtime knows that the engine listens, so nothing is gained by waiting a period.
An exec probe cannot be run where there is no container: the engine's /health answers in its place, and an event says so.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from modelplane.local.nodes.classify import port_number


class Kind(StrEnum):
    STARTUP = "Startup"
    READINESS = "Readiness"
    LIVENESS = "Liveness"


@dataclass(frozen=True, slots=True)
class Probe:
    """One probe, defaults filled in. Times in seconds."""

    kind: Kind
    action: Mapping[str, Any]
    initial_delay: float = 0.0
    period: float = 10.0
    timeout: float = 1.0
    successes: int = 1
    failures: int = 3

    @classmethod
    def of(cls, kind: Kind, container: Mapping[str, Any]) -> Probe | None:
        spec = container.get(f"{kind.value.lower()}Probe")
        if not spec:
            return None
        return cls(
            kind=kind,
            action=spec,
            initial_delay=spec.get("initialDelaySeconds") or 0,
            period=spec.get("periodSeconds") or 10,
            timeout=spec.get("timeoutSeconds") or 1,
            successes=spec.get("successThreshold") or 1,
            failures=spec.get("failureThreshold") or 3,
        )


@dataclass(slots=True)
class Verdict:
    """Counts results of one probe against its thresholds."""

    probe: Probe
    passing: bool | None = None
    streak: int = 0
    last: bool | None = None

    def take(self, ok: bool) -> bool:
        """Add a result; True when the verdict changed."""
        self.streak = self.streak + 1 if self.last is ok else 1
        self.last = ok
        needed = self.probe.successes if ok else self.probe.failures
        if self.streak < needed or self.passing is ok:
            return False
        self.passing = ok
        return True


@dataclass(frozen=True, slots=True)
class Target:
    """Where the engine really listens, and the container whose ports have names."""

    host: str
    port: int
    container: Mapping[str, Any]
    moved: bool = False
    """The engine listens on another port than its container says (shared address)."""

    def resolve(self, host: str | None, port: int | str) -> tuple[str, int] | None:
        number = port_number(self.container, port)
        if number is None:
            return None
        return (host or self.host, self.port if self.moved else number)


async def attempt(probe: Probe, target: Target) -> str | None:
    """Run a probe once: None for success, else what the kubelet would say."""
    action = probe.action
    try:
        async with asyncio.timeout(probe.timeout):
            if "httpGet" in action:
                return await _http(action["httpGet"], target)
            if "tcpSocket" in action:
                return await _tcp(action["tcpSocket"], target)
            if "grpc" in action:
                return await _tcp(action["grpc"], target)
            return await _http({"path": "/health", "port": target.port}, target)
    except TimeoutError:
        return "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
    except (OSError, EOFError, ValueError) as error:
        return f"{error}"


async def _http(get: Mapping[str, Any], target: Target) -> str | None:
    where = target.resolve(get.get("host"), get["port"])
    if where is None:
        return f"couldn't find port: {get['port']} in container"
    host, port = where
    context: ssl.SSLContext | None = None
    if get.get("scheme") == "HTTPS":
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    reader, writer = await asyncio.open_connection(host, port, ssl=context)
    try:
        headers = {
            "Host": f"{host}:{port}",
            "User-Agent": "kube-probe/modelplane",
            "Accept": "*/*",
            "Connection": "close",
        }
        headers |= {h["name"]: h["value"] for h in get.get("httpHeaders") or ()}
        path = get.get("path") or "/"
        lines = [
            f"GET {path if path.startswith('/') else '/' + path} HTTP/1.1",
            *(f"{k}: {v}" for k, v in headers.items()),
        ]
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))
        line = await reader.readline()
        words = line.split()
        if len(words) < 2 or not words[0].startswith(b"HTTP/"):
            return f'Get "http://{host}:{port}{path}": EOF'
        status = int(words[1])
        return None if 200 <= status < 400 else f"HTTP probe failed with statuscode: {status}"
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def _tcp(socket: Mapping[str, Any], target: Target) -> str | None:
    where = target.resolve(socket.get("host"), socket["port"])
    if where is None:
        return f"couldn't find port: {socket['port']} in container"
    _, writer = await asyncio.open_connection(*where)
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return None


class Prober:
    """The probes of one running container. `started` and `ready` are the kubelet's; `changed` is called when one changes.

    `failed(kind, message)` is told of each failed attempt, `unhealthy(kind)` when a startup or liveness probe has given up.
    """

    def __init__(
        self,
        container: Mapping[str, Any],
        target: Target,
        *,
        changed: Callable[[], None],
        failed: Callable[[Kind, str], None],
        unhealthy: Callable[[Kind], None],
        before: tuple[bool, bool] | None = None,
    ) -> None:
        """`before` is what (started, ready) were when the container was adopted; they hold until a probe says otherwise."""
        self._probes = {kind: Probe.of(kind, container) for kind in Kind}
        self._target = target
        self._changed = changed
        self._failed = failed
        self._unhealthy = unhealthy
        self._began = time.monotonic()
        self.started = self._probes[Kind.STARTUP] is None or (before is not None and before[0])
        self.ready = self.started and (self._probes[Kind.READINESS] is None or (before is not None and before[1]))
        self.tried = asyncio.Event()
        """Set once the first probes have said whether the container is ready."""

    @property
    def substituted(self) -> Sequence[Kind]:
        """Probes that run a command, which /health answers for."""
        return [k for k, p in self._probes.items() if p is not None and "exec" in p.action]

    async def run(self) -> None:
        """Probe until cancelled."""
        startup = self._probes[Kind.STARTUP]
        if startup is not None and not self.started:
            await self._watch(startup, until_passing=True)
        if self._probes[Kind.READINESS] is None:
            self.tried.set()
        async with asyncio.TaskGroup() as group:
            for kind in (Kind.READINESS, Kind.LIVENESS):
                probe = self._probes[kind]
                if probe is not None:
                    group.create_task(self._watch(probe))

    async def _watch(self, probe: Probe, *, until_passing: bool = False) -> None:
        verdict = Verdict(probe, passing=True if probe.kind is Kind.READINESS and self.ready else None)
        delay = self._began + probe.initial_delay - time.monotonic()
        if delay > 0:
            await asyncio.sleep(delay)
        while True:
            began = time.monotonic()
            message = await attempt(probe, self._target)
            if message is not None:
                self._failed(probe.kind, message)
            if verdict.take(message is None):
                self._apply(probe.kind, verdict.passing is True)
            if until_passing and verdict.passing:
                return
            self.tried.set()
            await asyncio.sleep(max(0.0, began + probe.period - time.monotonic()))

    def _apply(self, kind: Kind, passing: bool) -> None:
        if kind is Kind.STARTUP and passing:
            self.started = True
            self.ready = self._probes[Kind.READINESS] is None
            self._changed()
        elif kind is Kind.READINESS:
            self.ready = passing
            self._changed()
        elif not passing:
            self._unhealthy(kind)
