"""Scripts: what people do to workloads, played to two clusters at once; after every step that waits for something both are
compared.

A file of `scripts/` is a topic, a list of cases. A step sends a request (``$ns``, ``$core``, ``$apps``, ``$batch``, ``$resource``,
``$uid:configmaps/a`` of an object); with ``pods`` to some of the pods that have these labels, one after the other as ``$pod``.
``until`` says what has to be seen on each side before they are compared: fields of objects, or how many there are of a kind.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec
import yaml

from modelplane.api.meta import Key, Object, Resource
from modelplane.errors import ApiError
from modelplane.kube import Client, Kubeconfig
from modelplane.local.caches import Caches
from modelplane.local.kinds import POD
from tests.kubernetes.kubelet import NODE, Kubelet
from tests.kubernetes.normal import COMPARED, picture
from tests.kubernetes.transcript import TYPES, differences

FOLDER: Final = Path(__file__).with_name("scripts")
AT_ONCE: Final = 12
PATIENCE: Final = float(os.environ.get("MODELPLANE_PATIENCE", "45"))
"""Seconds for a side to get where a step waits for, and for both to agree then."""
PATHS: Final = {
    "core": "/api/v1/namespaces/{}",
    "apps": "/apis/apps/v1/namespaces/{}",
    "batch": "/apis/batch/v1/namespaces/{}",
    "resource": "/apis/resource.k8s.io/v1/namespaces/{}",
    "slices": "/apis/discovery.k8s.io/v1/namespaces/{}",
}


class Pods(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    labels: Mapping[str, str] = {}
    image: str = ""
    take: int = 1000
    stopping: bool = False


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    send: str = ""
    body: Any = None
    type: str = "merge"
    pods: Pods | None = None
    until: Mapping[str, Any] = {}


class Case(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    case: str
    reason: str
    steps: tuple[Step, ...]


def topics() -> dict[str, list[Case]]:
    files = sorted(FOLDER.glob("*.yaml"))
    return {path.stem: msgspec.convert(yaml.safe_load(path.read_text()), list[Case]) for path in files}


class Listed(Protocol):
    """What may differ, and has to: both read the same list."""

    def allows(self, case: str, where: str) -> bool:
        """Whether the sides may differ there."""
        ...

    def lacks(self, case: str, found: Collection[str]) -> Sequence[object]:
        """What is listed for this case alone, and at none of the places found."""
        ...


@dataclass(frozen=True)
class Played:
    """What came of one case: after which step what differed, or why it could not be played."""

    compared: int
    found: Mapping[str, tuple[Any, Any]]
    trouble: str = ""


@dataclass
class Side:
    """One cluster: its API, and everything in it that is compared."""

    name: str
    client: Client
    caches: Caches
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def watch(self) -> None:
        for kind in COMPARED:
            self.caches.of(kind).subscribe(lambda *_: self.changed.set())

    def objects(self, namespace: str) -> dict[Resource, list[Object]]:
        return {kind: [each for each in self.caches.of(kind).items() if _inside(each, namespace)] for kind in COMPARED}

    def find(self, namespace: str, path: str) -> Object | None:
        plural, _, name = path.partition("/")
        kind = next(each for each in COMPARED if each.plural == plural)
        return self.caches.of(kind).get(Key(namespace if kind.namespaced else "", name))


async def play(ours: Path, real: Path, listed: Listed) -> dict[str, Played]:
    """Every case on both, several at a time."""
    async with Client(Kubeconfig.load(ours)) as one, Client(Kubeconfig.load(real)) as other:
        sides = [Side("ours", one, Caches(one)), Side("real", other, Caches(other))]
        running = []
        for side in sides:
            side.watch()
            running += [side.caches.run(), Kubelet(side.client, side.caches).run()]
            await side.client.create(_node())
        tasks = [asyncio.create_task(each) for each in running]
        try:
            await asyncio.gather(*(side.caches.synced(*COMPARED) for side in sides))
            gate = asyncio.Semaphore(AT_ONCE)
            players = {
                f"{topic}/{case.case}": _Player(sides, f"{topic}-{case.case}", case)
                for topic, cases in topics().items()
                for case in cases
            }
            results = await asyncio.gather(*(each.play(gate, name, listed) for name, each in players.items()))
            return dict(zip(players, results, strict=True))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


class _Player:
    def __init__(self, sides: Sequence[Side], namespace: str, case: Case) -> None:
        self._sides = sides
        self._ns = namespace
        self._case = case

    async def play(self, gate: asyncio.Semaphore, name: str, listed: Listed) -> Played:
        found: dict[str, tuple[Any, Any]] = {}
        compared = 0
        last = max(number for number, step in enumerate(self._case.steps, 1) if step.until)

        def settled(number: int, now: Collection[str]) -> bool:
            """No difference is left to vanish and, at the end, none that is listed is still to come."""
            return all(listed.allows(name, where) for where in now) and not (
                number == last and listed.lacks(name, {*found, *now})
            )

        async with gate:
            try:
                for side in self._sides:
                    await side.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self._ns}})
                for number, step in enumerate(self._case.steps, 1):
                    await asyncio.gather(*(self._send(side, step) for side in self._sides))
                    if step.until:
                        await asyncio.gather(*(self._reach(side, number, step.until) for side in self._sides))
                        compared += 1
                        found |= await self._agree(number, partial(settled, number))
            except (ApiError, TimeoutError, AssertionError) as error:
                return Played(compared, found, f"{type(error).__name__}: {error}")
        return Played(compared, found)

    # --- a step ------------------------------------------------------------------------------------------------------

    async def _send(self, side: Side, step: Step) -> None:
        if not step.send:
            return
        targets = [""] if step.pods is None else self._chosen(side, step.pods)
        assert targets, f"{side.name}: no pod is like {step.pods}"
        for target in targets:
            await self._request(side, step, target)

    async def _request(self, side: Side, step: Step, pod: str) -> None:
        method, _, path = self._filled(side, step.send, pod).partition(" ")
        text = None if step.body is None else self._filled(side, json.dumps(step.body), pod)
        kind = TYPES.get(step.type, "application/json") if method == "PATCH" else "application/json"
        path, _, query = path.partition("?")
        params = dict(part.split("=") for part in query.split("&") if part)
        body = None if text is None else json.loads(text)
        answer = await side.client.request(method, path, body=body, params=params, headers={"Content-Type": kind})
        async with asyncio.timeout(PATIENCE):
            while not self._seen(side, answer):
                await self._change(side)

    def _seen(self, side: Side, answer: Object) -> bool:
        """Whether the watch shows what was written, so that nothing of before is taken for what came of it."""
        kind = next((each for each in COMPARED if each.gvk.kind == answer["kind"]), None)
        if answer["kind"] == "Status":
            uid = (answer.get("details") or {}).get("uid")
            return all(each["metadata"]["uid"] != uid for every in side.objects(self._ns).values() for each in every)
        if kind is None or "name" not in answer["metadata"]:
            return True
        found = side.caches.of(kind).get(Key.of(answer))
        version = answer["metadata"].get("resourceVersion")
        if found is None or version is None:
            # kube-apiserver answers a delete without a version where another was faster.
            return found is None or found["metadata"]["uid"] != answer["metadata"]["uid"]
        return int(found["metadata"]["resourceVersion"]) >= int(version)

    def _chosen(self, side: Side, pods: Pods) -> list[str]:
        found = [
            each
            for each in side.objects(self._ns)[POD]
            if pods.labels.items() <= (each["metadata"].get("labels") or {}).items()
            and pods.image in ("", each["spec"]["containers"][0]["image"])
            and (pods.stopping or not each["metadata"].get("deletionTimestamp"))
        ]
        return sorted(each["metadata"]["name"] for each in found)[: pods.take]

    def _filled(self, side: Side, text: str, pod: str) -> str:
        for name, path in PATHS.items():
            text = text.replace(f"${name}", path.format(self._ns))
        text = text.replace("$ns", self._ns).replace("$pod", pod)

        def uid(found: re.Match[str]) -> str:
            obj = side.find(self._ns, found[1])
            assert obj is not None, f"{side.name}: there is no {found[1]}"
            return str(obj["metadata"]["uid"])

        return re.sub(r"\$uid:([a-z]+/[a-z0-9-]+)", uid, text)

    # --- waiting -----------------------------------------------------------------------------------------------------

    async def _reach(self, side: Side, number: int, wanted: Mapping[str, Any]) -> None:
        end = time.monotonic() + PATIENCE
        while missing := list(self._missing(side, wanted)):
            assert time.monotonic() < end, f"step {number}, {side.name} does not get there: {'; '.join(missing)}"
            await self._change(side)

    def _missing(self, side: Side, wanted: Mapping[str, Any]) -> list[str]:
        objects = side.objects(self._ns)
        missing = []
        for path, want in ((path.replace("$ns", self._ns), want) for path, want in wanted.items()):
            if "/" not in path:
                have: Any = len(objects[next(kind for kind in COMPARED if kind.plural == path)])
                missing += [f"{have} {path}, not {want}"] if have != want else []
                continue
            obj = side.find(self._ns, path)
            if want is None or obj is None:
                missing += [f"{path} is {'there' if obj else 'missing'}"] if (want is None) != (obj is None) else []
                continue
            observed = (obj.get("status") or {}).get("observedGeneration")
            if observed not in (None, obj["metadata"].get("generation")):
                missing.append(f"{path} is not observed")
            for where, value in want.items():
                have = _at(obj, where)
                if have != value:
                    missing.append(f"{path} {where} is {have!r}, not {value!r}")
        return missing

    async def _agree(self, number: int, settled: Callable[[Collection[str]], bool]) -> dict[str, tuple[Any, Any]]:
        """What differs once that is settled, or when patience ends."""
        end = time.monotonic() + PATIENCE / 3
        while True:
            one, other = (picture(side.objects(self._ns)) for side in self._sides)
            found = {f"{number}:{where}": (a, b) for where, a, b in differences(one, other)}
            if settled(found) or time.monotonic() > end:
                return found
            await asyncio.wait(
                [asyncio.ensure_future(self._change(side)) for side in self._sides], return_when="FIRST_COMPLETED"
            )

    async def _change(self, side: Side) -> None:
        side.changed.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(0.3):
                await side.changed.wait()


def _inside(obj: Object, namespace: str) -> bool:
    """In the namespace, or itself the namespace."""
    return namespace in (obj["metadata"].get("namespace"), obj["metadata"]["name"])


def _at(value: Any, where: str) -> Any:
    """`status.conditions.Ready.reason`: an entry of a list by its type or name."""
    for part in where.split("."):
        if isinstance(value, list):
            value = next((each for each in value if part in (each.get("type"), each.get("name"))), None)
        else:
            value = value.get(part) if isinstance(value, dict) else None
    return value


def _node() -> Object:
    labels = {"topology.kubernetes.io/zone": "zone-1", "kubernetes.io/hostname": NODE}
    room = {"cpu": "64", "memory": "64Gi", "pods": "500"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": NODE, "labels": labels},
        "status": {
            "capacity": room,
            "allocatable": room,
            "conditions": [
                {"type": "Ready", "status": "True", "lastHeartbeatTime": None, "reason": "StandIn", "message": ""}
            ],
        },
    }
