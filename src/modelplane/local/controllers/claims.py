"""The ResourceClaim controller: claims from templates, and claims given back when their pods are gone or done."""

from __future__ import annotations

import asyncio

from modelplane.api.meta import Key, Object
from modelplane.errors import NotFound
from modelplane.kube import Client, PatchType
from modelplane.local.caches import Caches
from modelplane.local.controllers import pods as podlib
from modelplane.local.controllers.owners import controlled, controller_of
from modelplane.local.events import Events
from modelplane.local.kinds import CLAIM, CLAIM_TEMPLATE, POD
from modelplane.local.work import Work

POD_CLAIM = "resource.kubernetes.io/pod-claim-name"
FINALIZER = "resource.kubernetes.io/delete-protection"
TERMINAL = ("Succeeded", "Failed")


class Claims:
    """Run it with `run`."""

    def __init__(self, client: Client, caches: Caches) -> None:
        self._client = client
        self._caches = caches
        self._pods = caches.of(POD)
        self._claims = caches.of(CLAIM)
        self._templates = caches.of(CLAIM_TEMPLATE)
        self._made: dict[tuple[str, str], Object] = {}
        """Claims that we created and the cache may not show yet, by pod UID and claim name in the pod."""
        self._pod_work: Work[Key] = Work("claims of pod", self._sync_pod)
        self._claim_work: Work[Key] = Work("claim", self._sync_claim)
        self._events = Events(client, "resource-claim-controller")

    async def run(self) -> None:
        await self._caches.synced(POD, CLAIM, CLAIM_TEMPLATE)
        self._claims.subscribe(self._claim_changed)
        self._templates.subscribe(self._template_changed)
        self._pods.subscribe(self._pod_changed)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._events.run())
            group.create_task(self._pod_work.run())
            group.create_task(self._claim_work.run())

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        pod = new or old
        assert pod is not None
        if not pod["spec"].get("resourceClaims"):
            return
        if new is not None:
            self._pod_work.add(Key.of(pod))
        else:
            self._made = {key: claim for key, claim in self._made.items() if key[0] != pod["metadata"]["uid"]}
        if new is None or podlib.phase(new) in TERMINAL:
            for name in _claim_names(pod):
                self._claim_work.add(Key(pod["metadata"]["namespace"], name))

    def _claim_changed(self, old: Object | None, new: Object | None) -> None:
        claim = new or old
        assert claim is not None
        if new is not None:
            self._claim_work.add(Key.of(claim))
        owner = controller_of(claim)
        if owner is not None and owner["kind"] == "Pod":
            if old is None or new is None:
                named = (claim["metadata"].get("annotations") or {}).get(POD_CLAIM, "")
                self._made.pop((owner["uid"], named), None)
            self._pod_work.add(Key(claim["metadata"]["namespace"], owner["name"]))

    def _template_changed(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            return
        for pod in self._pods.items():
            wanted = [r.get("resourceClaimTemplateName") for r in pod["spec"].get("resourceClaims") or ()]
            if pod["metadata"]["namespace"] == new["metadata"]["namespace"] and new["metadata"]["name"] in wanted:
                self._pod_work.add(Key.of(pod))

    async def _sync_pod(self, key: Key) -> float | None:
        """Make the claims that the pod's templates ask for, then name them in the pod's status."""
        pod = self._pods.get(key)
        if pod is None or not podlib.is_active(pod):
            return None
        statuses = {s["name"]: s for s in (pod.get("status") or {}).get("resourceClaimStatuses") or ()}
        changed = False
        for reference in pod["spec"].get("resourceClaims") or ():
            template = reference.get("resourceClaimTemplateName")
            if not template or reference["name"] in statuses:
                continue
            claim = self._existing(pod, reference["name"]) or await self._create(pod, reference["name"], template)
            if claim is None:
                continue
            statuses[reference["name"]] = {"name": reference["name"], "resourceClaimName": claim["metadata"]["name"]}
            changed = True
        if changed:
            patch = {
                "metadata": {"uid": pod["metadata"]["uid"]},
                "status": {"resourceClaimStatuses": [*statuses.values()]},
            }
            fresh = await self._client.patch(POD, key.name, key.namespace, patch, PatchType.STRATEGIC, "status")
            self._pods.accept(fresh)
        return None

    def _existing(self, pod: Object, name: str) -> Object | None:
        made = self._made.get((pod["metadata"]["uid"], name))
        if made is not None:
            return made
        for claim in self._claims.items():
            owner = controller_of(claim)
            if (
                owner is not None
                and owner["uid"] == pod["metadata"]["uid"]
                and (claim["metadata"].get("annotations") or {}).get(POD_CLAIM) == name
            ):
                return claim
        return None

    async def _create(self, pod: Object, name: str, template_name: str) -> Object | None:
        namespace = pod["metadata"]["namespace"]
        template = self._templates.get(Key(namespace, template_name))
        if template is None:
            message = f'PodResourceClaim {name}: resource claim template "{template_name}" not found'
            self._events.event(pod, "Warning", "FailedResourceClaimCreation", message)
            return None
        metadata = template["spec"].get("metadata") or {}
        prefix = f"{pod['metadata']['name']}-{name}"[:247]
        claim = await self._client.create(
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaim",
                "metadata": {
                    "name": f"{prefix}-{podlib.suffix()}",
                    "generateName": f"{prefix}-",
                    "namespace": namespace,
                    "labels": dict(metadata.get("labels") or {}),
                    "annotations": {**(metadata.get("annotations") or {}), POD_CLAIM: name},
                    # A claim that is in use does not hold up the deletion of its pod.
                    "ownerReferences": [
                        {k: v for k, v in o.items() if k != "blockOwnerDeletion"} for o in controlled(pod)
                    ],
                },
                "spec": template["spec"]["spec"],
            }
        )
        if self._claims.get(Key.of(claim)) is None:
            self._made[(pod["metadata"]["uid"], name)] = claim
        return claim

    async def _sync_claim(self, key: Key) -> float | None:
        """Drop users that are gone; a claim without users loses its allocation and its protection."""
        claim = self._claims.get(key)
        if claim is None:
            return None
        status = dict(claim.get("status") or {})
        users = status.get("reservedFor") or []
        kept = [user for user in users if user.get("resource") != "pods" or await self._uses(key.namespace, user)]
        try:
            if len(kept) != len(users) or (status.get("allocation") and not kept):
                status.pop("reservedFor", None)
                if kept:
                    status["reservedFor"] = kept
                else:
                    status.pop("allocation", None)
                claim = await self._client.replace({**claim, "status": status}, "status")
                self._claims.accept(claim)
            finalizers = claim["metadata"].get("finalizers") or []
            unused = not kept and not status.get("allocation")
            if unused and FINALIZER in finalizers and (len(users) or self._over(claim)):
                rest = [f for f in finalizers if f != FINALIZER]
                metadata = {**claim["metadata"], "finalizers": rest}
                self._claims.accept(await self._client.replace({**claim, "metadata": metadata}))
            if not kept and not claim["metadata"].get("deletionTimestamp") and self._of_finished_pod(claim):
                await self._client.delete(CLAIM, key.name, key.namespace, uid=claim["metadata"]["uid"])
        except NotFound:
            return None
        return None

    async def _uses(self, namespace: str, user: Object) -> bool:
        pod = self._pods.get(Key(namespace, user["name"]))
        if pod is None or pod["metadata"]["uid"] != user["uid"]:
            # The cache may be behind a pod that was just bound; the API decides.
            try:
                pod = await self._client.get(POD, user["name"], namespace)
            except NotFound:
                return False
        return pod["metadata"]["uid"] == user["uid"] and podlib.phase(pod) not in TERMINAL

    def _over(self, claim: Object) -> bool:
        return bool(claim["metadata"].get("deletionTimestamp")) or self._of_finished_pod(claim)

    def _of_finished_pod(self, claim: Object) -> bool:
        owner = controller_of(claim)
        if owner is None or owner["kind"] != "Pod":
            return False
        pod = self._pods.get(Key(claim["metadata"]["namespace"], owner["name"]))
        return pod is not None and pod["metadata"]["uid"] == owner["uid"] and podlib.phase(pod) in TERMINAL


def _claim_names(pod: Object) -> list[str]:
    names = [r["resourceClaimName"] for r in pod["spec"].get("resourceClaims") or () if r.get("resourceClaimName")]
    for entry in (pod.get("status") or {}).get("resourceClaimStatuses") or ():
        if entry.get("resourceClaimName"):
            names.append(entry["resourceClaimName"])
    return names
