"""Does a replica answer? One question to `/v1/models` through its cluster's gateway, asked until it names a model.

Composers may not do I/O, so the answer becomes the condition `EndpointAnswering` and `status.models` of the ModelReplica. The first
questions follow one another within milliseconds, since traffic waits for them; later ones only keep the condition true.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Final

import aiohttp
import msgspec
import orjson

from modelplane.api.inference_cluster import KIND as INFERENCE_CLUSTER
from modelplane.api.meta import Condition, Key, Object, Status, condition_of
from modelplane.api.model_replica import KIND as MODEL_REPLICA
from modelplane.api.model_replica import ConditionType, Reason
from modelplane.control.caches import Caches
from modelplane.control.index import Parent, Place
from modelplane.control.status import Overlay
from modelplane.kube import Backoff

log = logging.getLogger(__name__)

MOST_NAMES: Final = 64
BODY_LIMIT: Final = 256 * 1024
STRIKES: Final = 3
"""Failures in a row before an answering replica counts as silent: one lost packet is no outage."""


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds: between first tries (doubling from ``first`` to ``last``), between checks of one that answers, and per question."""

    first: float = 0.02
    last: float = 1.0
    steady: float = 10.0
    patience: float = 3.0


class Answer(msgspec.Struct, frozen=True):
    """What became of one question."""

    models: tuple[str, ...] = ()
    problem: str = ""
    answered: bool = False


class Target(msgspec.Struct, frozen=True):
    """Where one replica is to be asked."""

    url: str
    ready: bool
    """Its workloads are available, so that an answer is to be expected."""


class Probe:
    """The state of one replica's questions."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.condition: Condition | None = None
        self.models: tuple[str, ...] = ()
        self.task: asyncio.Task[None] | None = None
        self.changed = asyncio.Event()


class Probes:
    """Asks every replica whose cluster has a gateway address. ``wake`` is called when an answer changes."""

    def __init__(self, caches: Caches, wake: Callable[[Parent], None], *, pace: Pace | None = None) -> None:
        self._caches = caches
        self._wake = wake
        self._pace = pace or Pace()
        self._probes: dict[Key, Probe] = {}
        self._session: aiohttp.ClientSession | None = None

    def start(self) -> None:
        """Begin to watch replicas and gateway addresses; to be called once, in the loop."""
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=64, limit_per_host=8),
            timeout=aiohttp.ClientTimeout(total=self._pace.patience),
            trust_env=False,
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        self._caches.on_change(self._changed)
        self._caches.watch(None, INFERENCE_CLUSTER)
        for replica in self._caches.objects(MODEL_REPLICA):
            self._follow(Key.of(replica))

    async def close(self) -> None:
        tasks = [probe.task for probe in self._probes.values() if probe.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._session is not None:
            await self._session.close()

    def overlay(self, replica: Object) -> Overlay:
        """What is known, for the reconciler to lay over the replica's status."""
        probe = self._probes.get(Key.of(replica))
        types, names = frozenset((ConditionType.ENDPOINT_ANSWERING.value,)), frozenset(("models",))
        condition = probe.condition if probe is not None else None
        if condition is None:
            if condition_of(replica, ConditionType.ENDPOINT_ANSWERING) is not None:
                return Overlay(types=types, names=names)
            condition = _condition(
                Status.UNKNOWN,
                Reason.NOT_PROBED,
                "asked once its workloads are available and its cluster has a gateway address",
            )
        fields = {"models": list(probe.models)} if probe is not None and probe.models else {}
        return Overlay(types=types, names=names, conditions=(condition,), fields=fields)

    # --- whom to ask -----------------------------------------------------------------------------------------------

    def _changed(self, place: Place, old: Object | None, new: Object | None) -> None:
        obj = new if new is not None else old
        if obj is None or place[0] is not None:
            return
        if place[1] == MODEL_REPLICA:
            self._follow(Key.of(obj))
        elif place[1] == INFERENCE_CLUSTER and _address(old) != _address(new):
            name = obj["metadata"]["name"]
            for replica in self._caches.objects(MODEL_REPLICA):
                if replica["spec"].get("clusterName") == name:
                    self._follow(Key.of(replica))

    def _follow(self, key: Key) -> None:
        """Start, move or end the questions to one replica."""
        replica = self._caches.get(MODEL_REPLICA, key)
        target = self._target(replica)
        probe = self._probes.get(key)
        if target is None:
            if replica is None and probe is not None:
                del self._probes[key]
                if probe.task is not None:
                    probe.task.cancel()
            return
        if probe is None:
            probe = self._probes[key] = Probe(target)
        elif probe.target != target:
            probe.target = target
            probe.changed.set()
        if probe.task is None:
            probe.task = asyncio.create_task(self._ask_on(key, probe), name=f"probe {key}")

    def _target(self, replica: Object | None) -> Target | None:
        if replica is None or replica["metadata"].get("deletionTimestamp"):
            return None
        address = _address(self._caches.get(INFERENCE_CLUSTER, Key("", replica["spec"].get("clusterName") or "")))
        if not address:
            return None
        metadata = replica["metadata"]
        ready = condition_of(replica, ConditionType.MODEL_READY)
        return Target(
            f"http://{address}/{metadata['namespace']}/{metadata['name']}/v1/models",
            ready is not None and ready.status is Status.TRUE,
        )

    # --- asking ----------------------------------------------------------------------------------------------------

    async def _ask_on(self, key: Key, probe: Probe) -> None:
        backoff, strikes = Backoff(self._pace.first, self._pace.last), 0
        while True:
            probe.changed.clear()
            if not probe.target.ready and not probe.models:
                await probe.changed.wait()
                backoff.reset()
                continue
            answer = await self._ask(probe.target.url)
            strikes = 0 if answer.models else strikes + 1
            if answer.models or not probe.models or strikes >= STRIKES:
                self._take(key, probe, answer)
            if answer.models:
                backoff.reset()
            pause = self._pace.steady if answer.models else backoff.next()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await probe.changed.wait()
                    backoff.reset()

    async def _ask(self, url: str) -> Answer:
        assert self._session is not None
        try:
            async with self._session.get(url, allow_redirects=False) as response:
                body = await response.content.read(BODY_LIMIT)
                if response.status != 200:
                    return Answer(problem=f"{url} answers {response.status}", answered=False)
        except TimeoutError:
            return Answer(problem=f"{url} does not answer within {self._pace.patience:g} s")
        except (aiohttp.ClientError, OSError) as error:
            return Answer(problem=f"{url} cannot be reached: {error}")
        models = _names(body)
        return Answer(models, "" if models else f"{url} names no model; check the engine's arguments", answered=True)

    def _take(self, key: Key, probe: Probe, answer: Answer) -> None:
        if answer.models:
            condition = _condition(Status.TRUE, Reason.ANSWERING, "")
        else:
            reason = Reason.NO_MODELS if answer.answered else Reason.NO_ANSWER
            condition = _condition(Status.FALSE, reason, answer.problem)
        models = answer.models or probe.models
        same = probe.condition is not None and (probe.condition.status, probe.condition.reason) == (
            condition.status,
            condition.reason,
        )
        if same and models == probe.models:
            return
        probe.condition, probe.models = condition, models
        log.info("replica %s: %s", key, answer.problem or f"answers as {', '.join(models)}")
        self._wake(Parent(MODEL_REPLICA, key))


def _address(cluster: Object | None) -> str:
    return (((cluster or {}).get("status") or {}).get("gateway") or {}).get("address") or ""


def _names(body: bytes) -> tuple[str, ...]:
    """Model names of a `/v1/models` answer; none from anything else."""
    try:
        entries = orjson.loads(body)["data"]
        return tuple(str(entry["id"]) for entry in entries if entry.get("id"))[:MOST_NAMES]
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
        return ()


def _condition(status: Status, reason: Reason, message: str) -> Condition:
    return Condition(type=ConditionType.ENDPOINT_ANSWERING.value, status=status, reason=reason.value, message=message)
