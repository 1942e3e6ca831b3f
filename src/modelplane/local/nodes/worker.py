"""One pod on one of our nodes, from binding to removal: prepare, start, probe, restart, stop.

A worker is a task. Cancelling it leaves the engine alone (the runtime ends, the engine lives on); stopping an engine is
always said by the API: a deletion, or the pod's absence.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from modelplane import processes
from modelplane.api.meta import Key, Object
from modelplane.errors import ApiError, Conflict, NotFound
from modelplane.kube import Client, Informer
from modelplane.local import clock
from modelplane.local.engines.settings import Settings, read_annotations, served_name
from modelplane.local.events import Events
from modelplane.local.kinds import POD
from modelplane.local.nodes.addresses import HOST_PORT, Addresses, free_port
from modelplane.local.nodes.classify import Served, completes, served
from modelplane.local.nodes.environment import ConfigError, command, resolve
from modelplane.local.nodes.forge import CannotStart, Forge
from modelplane.local.nodes.needs import Needs
from modelplane.local.nodes.podstatus import ContainerState, Stage
from modelplane.local.nodes.probes import Kind, Prober, Target
from modelplane.local.nodes.records import Ended, PodRecord, Records
from modelplane.local.nodes.reporting import Reporter

log = logging.getLogger(__name__)

FINISHED: Final = ("Succeeded", "Failed")
SYNC: Final = 1.0
"""Seconds between looks for something that a pod lacks."""
STEADY: Final = 600.0
"""Seconds after which a run counts as well and the next restart is a first one."""
FIRST_PROBE: Final = 0.05
"""Seconds that the first status waits for the first probe's answer."""


@dataclass(frozen=True, slots=True)
class Host:
    """What the workers of one runtime share."""

    client: Client
    claims: Informer
    events: Events
    records: Records
    forge: Forge
    addresses: Addresses
    used: Callable[[], set[str]]
    host_ip: str = "127.0.0.1"
    first_delay: float = 10.0
    last_delay: float = 300.0


class Worker:
    """Runs one pod; `update` brings its newer states, `vanish` its absence."""

    def __init__(self, host: Host, pod: Object, record: PodRecord) -> None:
        self._host = host
        self._pod = pod
        self.record = record
        self._served: Served | None = served(pod)
        self._needs = Needs(host.client, host.claims)
        self._report = Reporter(host.client, pod, record, host.host_ip)
        self._deleting = asyncio.Event()
        self._gone = False
        self._behaviour = dict(pod["metadata"].get("annotations") or {})
        self.update(pod)

    @property
    def key(self) -> Key:
        return Key.of(self._pod)

    def update(self, pod: Object) -> None:
        self._pod = self._report.pod = pod
        if pod["metadata"].get("deletionTimestamp"):
            self._deleting.set()
        annotations = dict(pod["metadata"].get("annotations") or {})
        if annotations != self._behaviour:
            self._behaviour = annotations
            self._resettle()

    def vanish(self) -> None:
        """The pod is not in the API any more."""
        self._gone = True
        self._deleting.set()

    async def run(self) -> None:
        """Until the pod is removed. Cancelling leaves everything as it is."""
        writer = asyncio.create_task(self._report.run())
        serving = asyncio.create_task(self._serve())
        try:
            deleting = asyncio.create_task(self._deleting.wait())
            done, _ = await asyncio.wait((deleting, serving), return_when=asyncio.FIRST_COMPLETED)
            if serving in done and serving.exception() is not None:
                log.error("pod %s", self.key, exc_info=serving.exception())
            await deleting
        finally:
            serving.cancel()
            writer.cancel()
            await asyncio.gather(serving, writer, return_exceptions=True)
        await self._stop()
        if not self._gone:
            await self._bid_farewell()
        self._host.records.remove(self.record.uid)

    # --- what the pod needs ----------------------------------------------------------------------------------------

    async def _serve(self) -> None:
        """Everything between binding and deletion. When the API is away, what was begun is done again once it is back."""
        while True:
            try:
                await self._live()
                return
            except ApiError as error:
                log.warning("pod %s: %s", self.key, error)
                await asyncio.sleep(SYNC)

    async def _live(self) -> None:
        if (self._pod.get("status") or {}).get("phase") in FINISHED:
            return
        if not self.record.started:
            self.record.started = clock.stamp()
        if self.record.process is None:
            await self._needed()
        if not self.record.ip:
            self.record.ip = self._host.host_ip if self._pod["spec"].get("hostNetwork") else self._address()
            self._host.records.save(self.record)
        if self._served is None:
            self._idle()
            return
        for container in self._pod["spec"]["containers"]:
            if container["name"] != self._served.container:
                self._report.show(container["name"], self._running(True))
        while await self._once():
            pass

    def _address(self) -> str:
        return self._host.addresses.take(self._host.used())

    async def _needed(self) -> None:
        """Return when claims and volumes are there; until then say what lacks."""
        told = ""
        while True:
            lacking = await self._needs.lacking(self._pod)
            if lacking is None:
                return
            reason, message = lacking
            if message != told:
                self._event("Warning", reason, message)
                for container in self._pod["spec"]["containers"]:
                    self._put_waiting(container["name"], "ContainerCreating", "")
                told = message
            await asyncio.sleep(SYNC if told else 0.0)

    # --- pods that do nothing --------------------------------------------------------------------------------------

    def _idle(self) -> None:
        finishing = completes(self._pod)
        if not self.record.running_since:
            images = ", ".join(sorted({c.get("image", "") for c in self._pod["spec"]["containers"]}))
            what = "its containers count as completed" if finishing else "its containers are Ready and do nothing"
            self._event("Normal", "NotPulled", f"{images} was not pulled: on this simulated node {what}")
            self.record.running_since = clock.stamp()
            self._host.records.save(self.record)
            self._note(f"{images} was not pulled: on this simulated node {what}")
        since = self.record.running_since
        for container in self._pod["spec"]["containers"]:
            if finishing:
                state = ContainerState(Stage.TERMINATED, "Completed", since=since, finished=since)
            else:
                state = self._running(True)
            self._report.show(container["name"], state)

    def _note(self, text: str) -> None:
        with contextlib.suppress(OSError), self._host.records.log(self.record.uid, 0).open("a") as file:
            file.write(f"{clock.micro_stamp()} {text}\n")

    # --- pods with an engine ---------------------------------------------------------------------------------------

    async def _once(self) -> bool:
        """One run of the engine, adopted or started; whether there is to be another."""
        assert self._served is not None
        container = next(c for c in self._pod["spec"]["containers"] if c["name"] == self._served.container)
        record = self.record
        before = self._shown_before(container["name"])
        if record.process is not None and not record.process.alive:
            self._ended(None)
            return self._again()
        if record.process is None:
            await self._sit_out(container["name"])
            if not await self._start(container):
                return True
            before = None
        process = record.process
        assert process is not None
        trouble: list[Kind] = []
        prober = Prober(
            container,
            Target(record.ip, record.port, container, moved=self._host.addresses.shared),
            changed=lambda: self._show(prober),
            failed=lambda kind, text: self._event("Warning", "Unhealthy", f"{kind} probe failed: {text}"),
            unhealthy=lambda kind: self._kill_unhealthy(kind, trouble),
            before=before,
        )
        for kind in prober.substituted:
            text = f"the {kind.lower()} probe's command is not run on a simulated node; the mock engine's /health answers for it"
            self._event("Normal", "MockEngine", text)
        probing = asyncio.create_task(prober.run())
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FIRST_PROBE):
                    await prober.tried.wait()
            self._show(prober)
            code = await self._host.forge.ended(process)
        finally:
            probing.cancel()
            await asyncio.gather(probing, return_exceptions=True)
        self._ended(code)
        return self._again()

    def _shown_before(self, name: str) -> tuple[bool, bool] | None:
        """Of an adopted engine: whether its pod's status says that it has started and is ready. That holds until a probe fails,
        so that a restart of this process takes no traffic away."""
        for status in (self._pod.get("status") or {}).get("containerStatuses") or ():
            if status["name"] == name and status.get("restartCount") == self.record.restarts:
                return bool(status.get("started")), bool(status.get("ready"))
        return None

    def _show(self, prober: Prober) -> None:
        assert self._served is not None
        state = replace(self._running(prober.ready), started=prober.started)
        self._report.show(self._served.container, state)

    def _kill_unhealthy(self, kind: Kind, trouble: list[Kind]) -> None:
        if trouble or self.record.process is None or self._served is None:
            return
        trouble.append(kind)
        name = self._served.container
        self._event("Normal", "Killing", f"Container {name} failed {kind.lower()} probe, will be restarted")
        grace = float(self._pod["spec"].get("terminationGracePeriodSeconds") or 30)
        _spawn(processes.stop(self.record.process, grace=grace))

    async def _sit_out(self, name: str) -> None:
        """Wait until the back-off of a crashing container is over."""
        wait = self.record.waiting_until - time.time()
        if wait > 0:
            text = f"back-off {wait:.0f}s restarting failed container={name} pod={self.key}"
            self._put_waiting(name, "CrashLoopBackOff", text)
            self._event("Warning", "BackOff", f"Back-off restarting failed container {name} in pod {self.key}")
            await asyncio.sleep(wait)

    async def _start(self, container: Mapping[str, Any]) -> bool:
        record, host = self.record, self._host
        name = container["name"]
        try:
            settings = await self._settings(container)
        except ConfigError as error:
            if self._put_waiting(name, "CreateContainerConfigError", str(error)):
                self._event("Warning", "Failed", f"Error: {error}")
            await asyncio.sleep(SYNC)
            return False
        for _ in range(20):
            if host.addresses.shared:
                settings = replace(settings, host=record.ip, port=record.port or free_port(record.ip))
            host.records.settings(record.uid).write_bytes(orjson.dumps(settings.to_json()))
            try:
                await self._forge(settings)
                break
            except CannotStart as error:
                if "in use" in str(error) and self._move():
                    settings = replace(settings, host=record.ip)
                    continue
                if self._put_waiting(name, "RunContainerError", f"the mock engine was not started: {error}"):
                    self._event("Warning", "Failed", f"Error: the mock engine was not started: {error}")
                await asyncio.sleep(SYNC)
                return False
        else:
            await asyncio.sleep(SYNC)
            return False
        if host.addresses.shared:
            annotation = {"metadata": {"annotations": {HOST_PORT: f"{record.ip}:{record.port}"}}}
            await host.client.patch(POD, record.name, record.namespace, annotation)
        where = f"{settings.host}:{settings.port}"
        image = container.get("image", "the image")
        self._event("Normal", "MockEngine", f"{image} was not pulled: a mock engine answers in its place on {where}")
        self._event("Normal", "Started", f"Started container {name}")
        return True

    def _move(self) -> bool:
        """Somebody listens there already: take another port of a shared address, or another address while nobody knows ours."""
        if self._host.addresses.shared:
            self.record.port = 0
            return True
        if (self._report.pod.get("status") or {}).get("podIP"):
            return False
        self.record.ip = self._address()
        return True

    async def _forge(self, settings: Settings) -> None:
        """Start the engine and remember it. Being cancelled meanwhile must not lose a process: it is remembered first."""
        record, host = self.record, self._host
        starting = asyncio.ensure_future(
            host.forge.start(
                settings,
                log_file=host.records.log(record.uid, record.restarts),
                settings_file=host.records.settings(record.uid),
            )
        )
        cancelled: asyncio.CancelledError | None = None
        while not starting.done():
            try:
                await asyncio.wait((starting,))
            except asyncio.CancelledError as error:
                cancelled = error
        if starting.exception() is None:
            record.process = starting.result()
            record.port = settings.port
            record.running_since = clock.stamp()
            host.records.save(record)
        if cancelled is not None:
            raise cancelled
        starting.result()

    async def _settings(self, container: Mapping[str, Any]) -> Settings:
        pod = {**self._pod, "status": {**(self._pod.get("status") or {}), "podIP": self.record.ip}}
        variables = resolve(container, pod, await self._needs.lookup(pod, container))
        assert self._served is not None
        model, given = served_name(command(container, variables), variables)
        behaviour, complaints = read_annotations(self._behaviour)
        for complaint in complaints:
            self._event("Warning", "MockEngine", complaint)
        return Settings(
            host=self.record.ip,
            port=self._served.port,
            pod=self.record.name,
            namespace=self.record.namespace,
            model=model,
            model_given=given,
            stamped=True,
            behaviour=behaviour,
        )

    def _resettle(self) -> None:
        """The annotations changed: an engine that runs behaves accordingly from now on."""
        process = self.record.process
        file = self._host.records.settings(self.record.uid)
        if process is None or not process.alive or not file.exists():
            return
        before = Settings.from_json(orjson.loads(file.read_bytes()))
        behaviour, complaints = read_annotations(self._behaviour)
        for complaint in complaints:
            self._event("Warning", "MockEngine", complaint)
        if behaviour == before.behaviour:
            return
        scratch = file.with_suffix(".tmp")
        scratch.write_bytes(orjson.dumps(replace(before, behaviour=behaviour).to_json()))
        scratch.replace(file)
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGHUP)

    # --- ends ------------------------------------------------------------------------------------------------------

    def _ended(self, code: int | None) -> None:
        """The engine has ended; None when nobody saw how."""
        record = self.record
        if code is None:
            exit_code, reason, message = 137, "ContainerStatusUnknown", "the engine ended while nobody watched"
        else:
            exit_code = code if code >= 0 else 128 - code
            reason, message = "Completed" if exit_code == 0 else "Error", ""
        record.last = Ended(exit_code, reason, record.running_since, clock.stamp(), message)
        record.process = None
        self._host.records.save(record)

    def _again(self) -> bool:
        """Whether the restart policy wants another run; if so, when."""
        assert self._served is not None
        record = self.record
        ended = record.last
        assert ended is not None
        policy = self._pod["spec"].get("restartPolicy", "Always")
        over = policy == "Never" or (policy == "OnFailure" and ended.exit_code == 0)
        state = ContainerState(
            Stage.TERMINATED,
            ended.reason,
            since=ended.started,
            exit_code=ended.exit_code,
            finished=ended.finished,
            restarts=record.restarts,
        )
        self._report.show(self._served.container, state)
        if over:
            return False
        if clock.since(ended.started) > STEADY:
            record.delay = 0.0
        record.waiting_until = time.time() + record.delay
        record.delay = min(self._host.last_delay, record.delay * 2 or self._host.first_delay)
        record.restarts += 1
        self._host.records.save(record)
        return True

    async def _stop(self) -> None:
        """SIGTERM, the pod's grace, SIGKILL."""
        process = self.record.process
        if process is None or not process.alive:
            return
        grace = 1.0 if self._gone else float(self._pod["metadata"].get("deletionGracePeriodSeconds") or 0)
        assert self._served is not None
        self._event("Normal", "Killing", f"Stopping container {self._served.container}")
        ended = asyncio.create_task(self._host.forge.ended(process))
        await processes.stop(process, grace=grace)
        self._ended(await ended)

    async def _bid_farewell(self) -> None:
        """Write how the containers ended, then remove the pod for good."""
        record = self.record
        moment = clock.stamp()
        for container in self._pod["spec"]["containers"]:
            mine = self._served is not None and container["name"] == self._served.container
            last = record.last if mine else None
            state = ContainerState(
                Stage.TERMINATED,
                last.reason if last else "Completed",
                since=last.started if last else record.running_since or moment,
                exit_code=last.exit_code if last else 0,
                finished=last.finished if last else moment,
                restarts=record.restarts if mine else 0,
            )
            self._report.show(container["name"], state)
        while not self._gone:
            try:
                await self._report.write()
                await self._host.client.delete(
                    POD, record.name, record.namespace, uid=record.uid, grace_period=0, propagation="Background"
                )
                return
            except (NotFound, Conflict):
                return
            except ApiError as error:
                log.warning("removing pod %s: %s", self.key, error)
                await asyncio.sleep(SYNC)

    def _running(self, ready: bool) -> ContainerState:
        record = self.record
        return ContainerState(
            Stage.RUNNING,
            since=record.running_since or record.started,
            started=True,
            ready=ready,
            restarts=record.restarts,
            last=record.last if self._served is not None else None,
        )

    def _put_waiting(self, name: str, reason: str, message: str) -> bool:
        """Show a waiting container; whether that is news."""
        record = self.record
        return self._report.show(
            name, ContainerState(Stage.WAITING, reason, message, restarts=record.restarts, last=record.last)
        )

    def _event(self, type_: str, reason: str, message: str) -> None:
        self._host.events.event(self._pod, type_, reason, message, host=self.record.node)


_BACKGROUND: set[asyncio.Task[Any]] = set()


def _spawn(work: Any) -> None:
    """Let something run beside; the loop alone would not keep it alive."""
    task = asyncio.ensure_future(work)
    _BACKGROUND.add(task)
    task.add_done_callback(_BACKGROUND.discard)
