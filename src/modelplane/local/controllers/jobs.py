"""Jobs, plainly: run pods until enough have succeeded, give up after `backoffLimit` failures or `activeDeadlineSeconds`.

Indexed completion, pod failure policies and suspended scheduling hints are not here; a suspended Job has no pods.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from modelplane.api.meta import Key, Object
from modelplane.errors import ApiError, NotFound
from modelplane.kube import Client
from modelplane.local import clock
from modelplane.local.caches import Caches
from modelplane.local.controllers import pods as podlib
from modelplane.local.controllers.owners import controller_of
from modelplane.local.controllers.replicasets import Expected
from modelplane.local.events import Events
from modelplane.local.kinds import JOB, POD
from modelplane.local.work import Work

FINISHED: Final = ("Complete", "Failed")
ANNOUNCED: Final = {"Complete": "SuccessCriteriaMet", "Failed": "FailureTarget"}
"""A verdict is announced at once, and final when the last pod has stopped."""
SHOWN_WITHOUT: Final = ("ready", "terminating")
"""Numbers of the status that are written when they are zero too."""


@dataclass(frozen=True, slots=True)
class Step:
    """What to do with a job now, and the status afterwards."""

    create: int
    delete: Sequence[Object]
    status: Object
    again: float | None


def decide(job: Object, pods: Sequence[Object], at: datetime) -> Step:
    """Pure: a job and its pods to a step."""
    spec, before = job["spec"], job.get("status") or {}
    active = [p for p in pods if podlib.is_active(p)]
    stopping = sum(podlib.is_stopping(p) for p in pods)
    succeeded = sum(podlib.phase(p) == "Succeeded" for p in pods)
    failed = sum(podlib.phase(p) == "Failed" for p in pods)
    conditions = {c["type"]: c for c in before.get("conditions") or ()}
    if any(conditions.get(type_, {}).get("status") == "True" for type_ in FINISHED):
        return Step(0, active, before, None)
    suspended = bool(spec.get("suspend"))
    started = before.get("startTime") or (None if suspended else clock.stamp(at))
    status: Object = {
        "startTime": started,
        "succeeded": succeeded,
        "failed": failed,
        "active": len(active),
        "ready": sum(podlib.is_ready(p) for p in active),
        "terminating": stopping,
    }
    verdict = _announced(conditions) or _verdict(spec, succeeded, failed, bool(active), started, at)
    if verdict is not None:
        type_, reason, message = verdict
        _put(conditions, ANNOUNCED[type_], "True", reason, message, at)
        if not active and not stopping:
            _put(conditions, type_, "True", reason, message, at)
            if type_ == "Complete":
                status["completionTime"] = clock.stamp(at)
        return Step(0, active, {**status, "conditions": [*conditions.values()]}, None)
    if suspended:
        _put(conditions, "Suspended", "True", "JobSuspended", "Job suspended", at)
        status["startTime"] = None
        return Step(0, active, {**status, "conditions": [*conditions.values()]}, None)
    if "Suspended" in conditions:
        if conditions["Suspended"]["status"] == "True":
            status["startTime"] = clock.stamp(at)
        _put(conditions, "Suspended", "False", "JobResumed", "Job resumed", at)
    status["conditions"] = [*conditions.values()]
    room = _room(spec, succeeded, len(active))
    surplus = sorted(active, key=podlib.deletion_order)[: max(0, len(active) - room)]
    deadline = spec.get("activeDeadlineSeconds")
    again = None if deadline is None else max(0.0, deadline - clock.since(status["startTime"], at))
    return Step(max(0, room - len(active)), surplus, status, again)


def _room(spec: Mapping[str, Any], succeeded: int, active: int) -> int:
    """How many pods may run. Without a number of completions none begins after the first success, and none is stopped."""
    parallelism, completions = int(spec.get("parallelism", 1)), spec.get("completions")
    if completions is None:
        return min(active, parallelism) if succeeded else parallelism
    return max(0, min(parallelism, int(completions) - succeeded))


def _verdict(
    spec: Mapping[str, Any], succeeded: int, failed: int, active: bool, started: str | None, at: datetime
) -> tuple[str, str, str] | None:
    """Condition, reason and message of the end, None while there is none."""
    completions, deadline = spec.get("completions"), spec.get("activeDeadlineSeconds")
    if failed > spec.get("backoffLimit", 6):
        return "Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit"
    if (
        started is not None
        and not spec.get("suspend")
        and deadline is not None
        and clock.since(started, at) >= deadline
    ):
        return "Failed", "DeadlineExceeded", "Job was active longer than specified deadline"
    enough = succeeded >= completions if completions is not None else bool(succeeded) and not active
    return ("Complete", "CompletionsReached", "Reached expected number of succeeded pods") if enough else None


def _announced(conditions: Mapping[str, Object]) -> tuple[str, str, str] | None:
    """A verdict that stands already, whatever its pods do while they stop."""
    for type_, announcement in ANNOUNCED.items():
        known = conditions.get(announcement)
        if known is not None and known["status"] == "True":
            return type_, known["reason"], known["message"]
    return None


def _put(conditions: dict[str, Object], type_: str, status: str, reason: str, message: str, at: datetime) -> None:
    if conditions.get(type_, {}).get("status") == status:
        return
    moment = clock.stamp(at)
    conditions[type_] = {
        "type": type_, "status": status, "reason": reason, "message": message,
        "lastProbeTime": moment, "lastTransitionTime": moment,
    }  # fmt: skip


class Jobs:
    """Run it with `run`."""

    def __init__(self, client: Client, caches: Caches) -> None:
        self._client = client
        self._caches = caches
        self._jobs = caches.of(JOB)
        self._pods = caches.of(POD)
        self._expected = Expected()
        self._work: Work[Key] = Work("job", self._sync, workers=2)
        self._events = Events(client, "job-controller")

    async def run(self) -> None:
        await self._caches.synced(JOB, POD)
        self._jobs.subscribe(lambda _, new: self._work.add(Key.of(new)) if new else None)
        self._pods.subscribe(self._pod_changed)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._events.run())
            group.create_task(self._work.run())

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        pod = new or old
        assert pod is not None
        owner = controller_of(pod)
        if owner is not None and owner["kind"] == "Job":
            key = Key(pod["metadata"]["namespace"], owner["name"])
            self._expected.seen(key, old, new)
            self._work.add(key)

    async def _sync(self, key: Key) -> float | None:
        job = self._jobs.get(key)
        if job is None or job["metadata"].get("deletionTimestamp"):
            self._expected.forget(key)
            return None
        uid = job["metadata"]["uid"]
        pods = [p for p in self._pods.items() if (controller_of(p) or {}).get("uid") == uid]
        if not self._expected.met(key):
            return None
        step = decide(job, pods, clock.now())
        if not job["spec"].get("suspend"):
            for _ in range(step.create):
                await self._create(key, job)
        for pod in step.delete:
            metadata = pod["metadata"]
            self._expected.deletion(key, metadata["uid"])
            try:
                await self._client.delete(POD, metadata["name"], metadata["namespace"], uid=metadata["uid"])
            except NotFound:
                self._expected.forget(key)
        status = {name: value for name, value in step.status.items() if value or name in SHOWN_WITHOUT}
        if status != (job.get("status") or {}):
            self._jobs.accept(await self._client.replace({**job, "status": status}, "status"))
            for condition in status.get("conditions") or ():
                if condition not in ((job.get("status") or {}).get("conditions") or ()):
                    self._tell(job, condition)
        return step.again

    def _tell(self, job: Object, condition: Mapping[str, Any]) -> None:
        told = {
            ("Complete", "True"): ("Normal", "Completed"),
            ("Failed", "True"): ("Warning", condition["reason"]),
            ("Suspended", "True"): ("Normal", "Suspended"),
            ("Suspended", "False"): ("Normal", "Resumed"),
        }
        found = told.get((condition["type"], condition["status"]))
        if found is not None:
            kind, reason = found
            self._events.event(job, kind, reason, "Job completed" if reason == "Completed" else condition["message"])

    async def _create(self, key: Key, job: Object) -> None:
        pod = podlib.from_template(job["spec"]["template"], job, job["metadata"]["name"])
        name, uid = job["metadata"]["name"], job["metadata"]["uid"]
        for label, value in (
            ("batch.kubernetes.io/job-name", name),
            ("batch.kubernetes.io/controller-uid", uid),
            ("job-name", name),
            ("controller-uid", uid),
        ):
            pod["metadata"]["labels"].setdefault(label, value[:63])
        self._expected.creation(key, Key.of(pod))
        try:
            await self._client.create(pod)
        except BaseException as error:
            self._expected.failed(key, Key.of(pod))
            if isinstance(error, ApiError) and podlib.refused_at_the_end(error):
                return
            raise
        self._events.event(job, "Normal", "SuccessfulCreate", f"Created pod: {pod['metadata']['name']}")
