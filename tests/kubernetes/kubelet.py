"""A stand-in for scheduler and kubelet that treats pods on every API server alike: what a pod's annotations ask for happens to it.

So that what two servers' controllers do can be compared and nothing else differs. A pod is bound once its claims are made, which
are then reserved for it; it runs and is ready, unless told otherwise; when it is to stop, it is gone.
"""

from __future__ import annotations

import itertools
from contextlib import suppress
from typing import Any, Final

from modelplane.api.meta import Key, Object
from modelplane.errors import AlreadyExists, Conflict, NotFound
from modelplane.kube import Client, PatchType
from modelplane.local import clock
from modelplane.local.caches import Caches
from modelplane.local.kinds import CLAIM, POD
from modelplane.local.work import Work

NODE: Final = "node-1"
PREFIX: Final = "stand-in/"
"""Annotations: `bind: never`, `ready: "false"`, `phase: Succeeded`, `stop: never`."""
PROTECTION: Final = "resource.kubernetes.io/delete-protection"


class Kubelet:
    def __init__(self, client: Client, caches: Caches) -> None:
        self._client = client
        self._pods = caches.of(POD)
        self._claims = caches.of(CLAIM)
        self._addresses = itertools.count(1)
        self._work: Work[Key] = Work("stand-in", self._sync)
        self._pods.subscribe(lambda _, new: self._work.add(Key.of(new)) if new else None)

    async def run(self) -> None:
        await self._work.run()

    async def _sync(self, key: Key) -> float | None:
        pod = self._pods.get(key)
        if pod is None:
            return None
        metadata = pod["metadata"]
        asked = {
            k.removeprefix(PREFIX): v for k, v in (metadata.get("annotations") or {}).items() if k.startswith(PREFIX)
        }
        with suppress(NotFound, Conflict):
            if metadata.get("deletionTimestamp"):
                if asked.get("stop") != "never":
                    await self._client.delete(POD, key.name, key.namespace, uid=metadata["uid"], grace_period=0)
            elif not pod["spec"].get("nodeName"):
                if asked.get("bind") != "never":
                    return await self._bind(pod)
            else:
                await self._report(pod, asked)
        return None

    async def _bind(self, pod: Object) -> float | None:
        metadata = pod["metadata"]
        made = {s["name"]: s.get("resourceClaimName") for s in pod["status"].get("resourceClaimStatuses") or ()}
        for reference in pod["spec"].get("resourceClaims") or ():
            name = reference.get("resourceClaimName") or made.get(reference["name"])
            claim = self._claims.get(Key(metadata["namespace"], name or ""))
            if claim is None:
                return 0.05
            await self._reserve(pod, claim)
        target = {"apiVersion": "v1", "kind": "Node", "name": NODE}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": metadata["name"]}, "target": target}
        with suppress(AlreadyExists):
            await self._client.request("POST", POD.path(metadata["namespace"], metadata["name"], "binding"), body=body)
        return None

    async def _reserve(self, pod: Object, claim: Object) -> None:
        status: dict[str, Any] = claim.get("status") or {}
        user = {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
        if any(each["uid"] == user["uid"] for each in status.get("reservedFor") or ()):
            return
        if PROTECTION not in (claim["metadata"].get("finalizers") or ()):
            finalizers = [*(claim["metadata"].get("finalizers") or ()), PROTECTION]
            claim = await self._client.replace({**claim, "metadata": {**claim["metadata"], "finalizers": finalizers}})
        allocation = status.get("allocation") or {"devices": {"results": []}}
        users = [*(status.get("reservedFor") or ()), user]
        await self._client.replace({**claim, "status": {"allocation": allocation, "reservedFor": users}}, "status")

    async def _report(self, pod: Object, asked: dict[str, str]) -> None:
        metadata, status = pod["metadata"], pod.get("status") or {}
        phase = asked.get("phase", "Running")
        ready = "True" if phase == "Running" and asked.get("ready") != "false" else "False"
        known = next((c["status"] for c in status.get("conditions") or () if c["type"] == "Ready"), None)
        if (status.get("phase"), known) == (phase, ready):
            return
        conditions = [
            {"type": type_, "status": ready, "lastTransitionTime": clock.stamp()}
            for type_ in ("Ready", "ContainersReady")
        ]
        wanted: Object = {"phase": phase, "conditions": conditions}
        if not status.get("podIP"):
            address = f"10.200.{next(self._addresses) // 250}.{next(self._addresses) % 250 + 1}"
            wanted |= {"podIP": address, "podIPs": [{"ip": address}], "startTime": clock.stamp()}
        patch = {"metadata": {"uid": metadata["uid"]}, "status": wanted}
        await self._client.patch(POD, metadata["name"], metadata["namespace"], patch, PatchType.STRATEGIC, "status")
