"""Jobs, plainly: run pods until enough have succeeded, give up after `backoffLimit` failures or `activeDeadlineSeconds`.

Indexed completion, pod failure policies and suspended scheduling hints are not here; a suspended Job has no pods.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from modelplane.api.meta import Key, Object
from modelplane.errors import NotFound
from modelplane.kube import Client
from modelplane.local import clock
from modelplane.local.caches import Caches
from modelplane.local.controllers import pods as podlib
from modelplane.local.controllers.owners import controller_of
from modelplane.local.controllers.replicasets import Expected
from modelplane.local.events import Events
from modelplane.local.kinds import JOB, POD
from modelplane.local.work import Work


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
    succeeded = sum(podlib.phase(p) == "Succeeded" for p in pods)
    failed = sum(podlib.phase(p) == "Failed" for p in pods)
    parallelism = spec.get("parallelism", 1)
    completions = spec.get("completions")
    wanted = completions if completions is not None else max(1, succeeded)
    started = before.get("startTime") or clock.stamp(at)
    status: Object = {"startTime": started, "succeeded": succeeded, "failed": failed}
    finished = [
        c for c in before.get("conditions") or () if c["type"] in ("Complete", "Failed") and c["status"] == "True"
    ]
    if finished:
        return Step(0, active, {**before, "active": 0}, None)
    verdict: tuple[str, str, str] | None = None
    deadline = spec.get("activeDeadlineSeconds")
    if failed > spec.get("backoffLimit", 6):
        verdict = ("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    elif deadline is not None and clock.since(started, at) >= deadline:
        verdict = ("Failed", "DeadlineExceeded", "Job was active longer than specified deadline")
    elif succeeded >= wanted and not (completions is None and active):
        verdict = ("Complete", "CompletionsReached", "Reached expected number of succeeded pods")
    if verdict is not None:
        type_, reason, message = verdict
        moment = clock.stamp(at)
        condition = {
            "type": type_, "status": "True", "reason": reason, "message": message,
            "lastProbeTime": moment, "lastTransitionTime": moment,
        }  # fmt: skip
        status["conditions"] = [*(before.get("conditions") or ()), condition]
        if type_ == "Complete":
            status["completionTime"] = moment
        return Step(0, active, status, None)
    if spec.get("suspend"):
        return Step(0, active, status, None)
    room = parallelism if completions is None and not succeeded else max(0, min(parallelism, wanted - succeeded))
    status["active"] = len(active)
    status["ready"] = sum(podlib.is_ready(p) for p in active)
    surplus = sorted(active, key=podlib.deletion_order)[: max(0, len(active) - room)]
    again = None if deadline is None else max(0.0, deadline - clock.since(started, at))
    return Step(max(0, room - len(active)), surplus, status, again)


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
        status = {name: value for name, value in step.status.items() if value}
        if status != (job.get("status") or {}):
            self._jobs.accept(await self._client.replace({**job, "status": status}, "status"))
            for condition in status.get("conditions") or ():
                if condition not in ((job.get("status") or {}).get("conditions") or ()):
                    kind = "Normal" if condition["type"] == "Complete" else "Warning"
                    reason = "Completed" if kind == "Normal" else condition["reason"]
                    self._events.event(job, kind, reason, condition["message"])
        return step.again

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
        except BaseException:
            self._expected.failed(key, Key.of(pod))
            raise
        self._events.event(job, "Normal", "SuccessfulCreate", f"Created pod: {pod['metadata']['name']}")
