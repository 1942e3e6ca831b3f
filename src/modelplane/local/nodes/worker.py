"""One pod on one of our nodes, from binding to removal: prepare, start, probe, restart, stop.

A worker is a task. Cancelling it leaves the engine alone (the runtime ends, the engine lives on); stopping an engine is
always said by the API: a deletion, or the pod's absence.
"""

from __future__ import annotations

import asyncio
import base64
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
from modelplane.kube import Client, Informer, PatchType
from modelplane.local import clock
from modelplane.local.engines.settings import Settings, read_annotations, served_name
from modelplane.local.events import Events
from modelplane.local.kinds import CLAIM, CONFIG_MAP, POD, SECRET
from modelplane.local.nodes import podstatus
from modelplane.local.nodes.addresses import HOST_PORT, Addresses, free_port
from modelplane.local.nodes.classify import Served, claim_names, completes, mounted, served
from modelplane.local.nodes.environment import ConfigError, command, resolve
from modelplane.local.nodes.forge import CannotStart, Forge
from modelplane.local.nodes.podstatus import ContainerState, Stage
from modelplane.local.nodes.probes import Kind, Prober, Target
from modelplane.local.nodes.records import Ended, PodRecord, Records

log = logging.getLogger(__name__)

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
        self._states: dict[str, ContainerState] = {}
        self._dirty = asyncio.Event()
        self._deleting = asyncio.Event()
        self._gone = False
        self._written: Object | None = None
        self._behaviour = dict(pod["metadata"].get("annotations") or {})
        self.update(pod)

    @property
    def key(self) -> Key:
        return Key.of(self._pod)

    def update(self, pod: Object) -> None:
        self._pod = pod
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
        writer = asyncio.create_task(self._keep_writing())
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
        if podstatus_is_final(self._pod):
            return
        if not self.record.started:
            self.record.started = clock.stamp()
        await self._needed()
        if not self.record.ip:
            self.record.ip = self._host.host_ip if self._pod["spec"].get("hostNetwork") else self._address()
            self._host.records.save(self.record)
        if self._served is None:
            self._idle()
            return
        for container in self._pod["spec"]["containers"]:
            if container["name"] != self._served.container:
                self._states[container["name"]] = self._running(True)
        while await self._once():
            pass

    def _address(self) -> str:
        return self._host.addresses.take(self._host.used())

    async def _needed(self) -> None:
        """Return when claims and volumes are there; until then say what lacks."""
        told = ""
        while True:
            lacking = await self._lacking()
            if lacking is None:
                return
            reason, message = lacking
            if message != told:
                self._event("Warning", reason, message)
                self._all_waiting("ContainerCreating")
                told = message
            await asyncio.sleep(SYNC if told else 0.0)

    async def _lacking(self) -> tuple[str, str] | None:
        namespace, uid = self._pod["metadata"]["namespace"], self._pod["metadata"]["uid"]
        for name, claim_name in claim_names(self._pod).items():
            claim = self._host.claims.get(Key(namespace, claim_name)) if claim_name else None
            if not _reserved(claim, uid) and claim_name:
                claim = await self._get(CLAIM, claim_name)
            if not _reserved(claim, uid):
                text = f'claim "{claim_name or name}" is not allocated and reserved for this pod'
                return "FailedPrepareDynamicResources", f"Failed to prepare dynamic resources: {text}"
        for volume, kind, name, optional in mounted(self._pod):
            if not optional and await self._get(CONFIG_MAP if kind == "ConfigMap" else SECRET, name) is None:
                text = f'{kind.lower()} "{name}" not found'
                return "FailedMount", f'MountVolume.SetUp failed for volume "{volume}" : {text}'
        return None

    async def _get(self, resource: Any, name: str) -> Object | None:
        try:
            return await self._host.client.get(resource, name, self._pod["metadata"]["namespace"])
        except NotFound:
            return None

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
            self._states[container["name"]] = state
        self._dirty.set()

    def _note(self, text: str) -> None:
        with contextlib.suppress(OSError), self._host.records.log(self.record.uid, 0).open("a") as file:
            file.write(f"{clock.micro_stamp()} {text}\n")

    # --- pods with an engine ---------------------------------------------------------------------------------------

    async def _once(self) -> bool:
        """One run of the engine, adopted or started; whether there is to be another."""
        assert self._served is not None
        container = next(c for c in self._pod["spec"]["containers"] if c["name"] == self._served.container)
        record = self.record
        if record.process is None or not record.process.alive:
            if record.process is not None:
                self._ended(None)
            if not await self._may_start(container) or not await self._start(container):
                return True
        process = record.process
        assert process is not None
        trouble: list[Kind] = []
        prober = Prober(
            container,
            Target(record.ip, record.port, container, moved=self._host.addresses.shared),
            changed=lambda: self._show(prober),
            failed=lambda kind, text: self._event("Warning", "Unhealthy", f"{kind} probe failed: {text}"),
            unhealthy=lambda kind: self._kill_unhealthy(kind, trouble),
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

    def _show(self, prober: Prober) -> None:
        assert self._served is not None
        state = replace(self._running(prober.ready), started=prober.started)
        if self._states.get(self._served.container) != state:
            self._states[self._served.container] = state
            self._dirty.set()

    def _kill_unhealthy(self, kind: Kind, trouble: list[Kind]) -> None:
        if trouble or self.record.process is None or self._served is None:
            return
        trouble.append(kind)
        name = self._served.container
        self._event("Normal", "Killing", f"Container {name} failed {kind.lower()} probe, will be restarted")
        grace = float(self._pod["spec"].get("terminationGracePeriodSeconds") or 30)
        _spawn(processes.stop(self.record.process, grace=grace))

    async def _may_start(self, container: Mapping[str, Any]) -> bool:
        """Sit out a back-off; then whether the container's configuration is there."""
        wait = self.record.waiting_until - time.time()
        if wait > 0:
            text = f"back-off {self.record.delay:.0f}s restarting failed container={container['name']} pod={self.key}"
            self._put_waiting(container["name"], "CrashLoopBackOff", text)
            self._event(
                "Warning", "BackOff", f"Back-off restarting failed container {container['name']} in pod {self.key}"
            )
            await asyncio.sleep(wait)
        return True

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
                settings = replace(settings, host="127.0.0.1", port=record.port or free_port())
            host.records.settings(record.uid).write_bytes(orjson.dumps(settings.to_json()))
            try:
                record.process = await host.forge.start(
                    settings,
                    log_file=host.records.log(record.uid, record.restarts),
                    settings_file=host.records.settings(record.uid),
                )
                break
            except CannotStart as error:
                published = (self._pod.get("status") or {}).get("podIP")
                if "in use" in str(error) and not published and not host.addresses.shared:
                    record.ip = self._address()  # somebody else's engine has it; nobody knows ours yet
                    settings = replace(settings, host=record.ip)
                    continue
                if self._put_waiting(name, "RunContainerError", f"the mock engine was not started: {error}"):
                    self._event("Warning", "Failed", f"Error: the mock engine was not started: {error}")
                await asyncio.sleep(SYNC)
                return False
        record.port = settings.port
        record.running_since = clock.stamp()
        host.records.save(record)
        if host.addresses.shared:
            annotation = {"metadata": {"annotations": {HOST_PORT: f"127.0.0.1:{record.port}"}}}
            await host.client.patch(POD, record.name, record.namespace, annotation)
        where = f"{settings.host}:{settings.port}"
        image = container.get("image", "the image")
        self._event("Normal", "MockEngine", f"{image} was not pulled: a mock engine answers in its place on {where}")
        self._event("Normal", "Started", f"Started container {name}")
        return True

    async def _settings(self, container: Mapping[str, Any]) -> Settings:
        pod = {**self._pod, "status": {**(self._pod.get("status") or {}), "podIP": self.record.ip}}
        variables = resolve(container, pod, await self._lookup(container))
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

    async def _lookup(self, container: Mapping[str, Any]) -> Callable[[str, str], Mapping[str, str] | None]:
        """Read the ConfigMaps and Secrets that the container's environment names, before it is resolved."""
        wanted: set[tuple[str, str]] = set()
        for source in container.get("envFrom") or ():
            for field, kind in (("configMapRef", "ConfigMap"), ("secretRef", "Secret")):
                if source.get(field):
                    wanted.add((kind, source[field]["name"]))
        for entry in container.get("env") or ():
            source = entry.get("valueFrom") or {}
            for field, kind in (("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret")):
                if source.get(field):
                    wanted.add((kind, source[field]["name"]))
        found: dict[tuple[str, str], Mapping[str, str] | None] = {}
        for kind, name in sorted(wanted):
            obj = await self._get(CONFIG_MAP if kind == "ConfigMap" else SECRET, name)
            data = None if obj is None else obj.get("data") or {}
            if data is not None and kind == "Secret":
                data = {key: base64.b64decode(value).decode(errors="replace") for key, value in data.items()}
            found[kind, name] = data
        return lambda kind, name: found[kind, name]

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
        self._states[self._served.container] = ContainerState(
            Stage.TERMINATED,
            ended.reason,
            since=ended.started,
            exit_code=ended.exit_code,
            finished=ended.finished,
            restarts=record.restarts,
        )
        self._dirty.set()
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
            self._states[container["name"]] = ContainerState(
                Stage.TERMINATED,
                last.reason if last else "Completed",
                since=last.started if last else record.running_since or moment,
                exit_code=last.exit_code if last else 0,
                finished=last.finished if last else moment,
                restarts=record.restarts if mine else 0,
            )
        while not self._gone:
            try:
                await self._write()
                await self._host.client.delete(
                    POD, record.name, record.namespace, uid=record.uid, grace_period=0, propagation="Background"
                )
                return
            except (NotFound, Conflict):
                return
            except ApiError as error:
                log.warning("removing pod %s: %s", self.key, error)
                await asyncio.sleep(SYNC)

    # --- status ----------------------------------------------------------------------------------------------------

    def _running(self, ready: bool) -> ContainerState:
        record = self.record
        mine = record.last if self._served is not None else None
        return ContainerState(
            Stage.RUNNING,
            since=record.running_since or record.started,
            started=True,
            ready=ready,
            restarts=record.restarts,
            last=mine,
        )

    def _all_waiting(self, reason: str) -> None:
        for container in self._pod["spec"]["containers"]:
            self._put_waiting(container["name"], reason, "")

    def _put_waiting(self, name: str, reason: str, message: str) -> bool:
        """Show a waiting container; whether that is news."""
        state = ContainerState(Stage.WAITING, reason, message, restarts=self.record.restarts, last=self.record.last)
        if self._states.get(name) == state:
            return False
        self._states[name] = state
        self._dirty.set()
        return True

    def _event(self, type_: str, reason: str, message: str) -> None:
        self._host.events.event(self._pod, type_, reason, message, host=self.record.node)

    async def _keep_writing(self) -> None:
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            try:
                await self._write()
            except (NotFound, Conflict):
                log.debug("pod %s is another one by now", self.key)
            except ApiError as error:
                log.warning("status of pod %s: %s", self.key, error)
                self._dirty.set()
                await asyncio.sleep(SYNC / 2)

    async def _write(self) -> None:
        for container in self._pod["spec"]["containers"]:
            self._states.setdefault(container["name"], ContainerState(Stage.WAITING, "ContainerCreating"))
        status = podstatus.compose(
            self._pod,
            self._states,
            ip=self.record.ip,
            host_ip=self._host.host_ip,
            started=self.record.started or clock.stamp(),
        )
        if status == self._written:
            return
        body = {"metadata": {"uid": self.record.uid}, "status": status}
        fresh = await self._host.client.patch(
            POD, self.record.name, self.record.namespace, body, PatchType.STRATEGIC, "status"
        )
        self._written = status
        self._pod = {**self._pod, "status": fresh.get("status") or {}}


def podstatus_is_final(pod: Object) -> bool:
    """Whether the pod ran to its end already."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def _reserved(claim: Object | None, uid: str) -> bool:
    status = (claim or {}).get("status") or {}
    return bool(status.get("allocation")) and any(user.get("uid") == uid for user in status.get("reservedFor") or ())


_BACKGROUND: set[asyncio.Task[Any]] = set()


def _spawn(work: Any) -> None:
    """Let something run beside; the loop alone would not keep it alive."""
    task = asyncio.ensure_future(work)
    _BACKGROUND.add(task)
    task.add_done_callback(_BACKGROUND.discard)
