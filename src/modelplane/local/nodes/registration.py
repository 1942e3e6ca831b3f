"""Keeps a cluster's nodes, slices and classes registered, and their Leases renewed.

What the fleet file says is put back where it was lost, and what people and controllers added (cordons, taints, labels) stays.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from modelplane.api.meta import Object, Resource
from modelplane.errors import AlreadyExists, ApiError, NotFound
from modelplane.kube import Client
from modelplane.local import clock
from modelplane.local.kinds import DEVICE_CLASS, LEASE, NAMESPACE, NODE, RESOURCE_SLICE
from modelplane.local.nodes.inventory import LEASE_SECONDS, LEASES, OWNED_LABEL, NodePlan, conditions

log = logging.getLogger(__name__)

RENEW_EVERY: Final = 10.0
AGAIN: Final = 0.5


class Registration:
    """`register` once, then `run`."""

    def __init__(self, client: Client, plans: Sequence[NodePlan], classes: Sequence[Object]) -> None:
        self._client = client
        self._plans = plans
        self._classes = classes
        self._uids: dict[str, str] = {}
        self._version = ""

    async def register(self) -> None:
        """Make or correct everything; tries until the API server takes it."""
        while True:
            try:
                # No kubelet may be newer than its API server, and ours has nothing of its own that an older one lacks.
                self._version = str((await self._client.request("GET", "/version"))["gitVersion"])
                await self._namespace()
                for plan in self._plans:
                    await self._node(plan)
                    await self._renew(plan.name)
                for wanted in self._classes:
                    await self._shelf(DEVICE_CLASS, wanted, keep_spec=True)
                for plan in self._plans:
                    for piece in plan.slices:
                        await self._slice(plan.name, piece)
                await self._leave()
                return
            except ApiError as error:
                log.warning("registering nodes: %s; trying again", error)
                await asyncio.sleep(AGAIN)

    async def run(self) -> None:
        """Renew Leases until cancelled; a node that somebody deleted is registered again."""
        while True:
            await asyncio.sleep(RENEW_EVERY)
            for plan in self._plans:
                try:
                    await self._renew(plan.name)
                    node = await self._client.get(NODE, plan.name)
                    ready = [c["status"] for c in node["status"].get("conditions") or () if c["type"] == "Ready"]
                    if ready != ["True"] or node["metadata"]["uid"] != self._uids.get(plan.name):
                        await self._node(plan)
                except NotFound:
                    await self.register()
                except ApiError as error:
                    log.warning("lease of %s: %s", plan.name, error)

    async def _namespace(self) -> None:
        try:
            await self._client.get(NAMESPACE, LEASES)
        except NotFound:
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": LEASES}}
            try:
                await self._client.create(body)
            except AlreadyExists:
                return

    async def _node(self, plan: NodePlan) -> None:
        try:
            node = await self._client.create({key: value for key, value in plan.node.items() if key != "status"})
        except AlreadyExists:
            node = await self._client.get(NODE, plan.name)
            labels = {**(node["metadata"].get("labels") or {}), **plan.node["metadata"]["labels"]}
            have = list((node["spec"] or {}).get("taints") or ())
            there = {(t["key"], t["effect"]) for t in have}
            lost = [t for t in plan.node["spec"].get("taints") or () if (t["key"], t["effect"]) not in there]
            if labels != node["metadata"].get("labels") or lost:
                body = {
                    "metadata": {"resourceVersion": node["metadata"]["resourceVersion"], "labels": labels},
                    "spec": {"taints": [*have, *lost]},
                }
                node = await self._client.patch(NODE, plan.name, None, body)
        info = {**plan.node["status"]["nodeInfo"], "kubeletVersion": self._version}
        status = {**plan.node["status"], "nodeInfo": info, "conditions": conditions(node.get("status") or {})}
        patch = {"status": status}
        node = await self._client.patch(NODE, plan.name, None, patch, subresource="status")
        self._uids[plan.name] = node["metadata"]["uid"]

    async def _renew(self, name: str) -> None:
        spec = {"holderIdentity": name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": clock.micro_stamp()}
        try:
            await self._client.patch(LEASE, name, LEASES, {"spec": spec})
        except NotFound:
            owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": self._uids[name]}
            metadata = {"name": name, "namespace": LEASES, "ownerReferences": [owner]}
            body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
            await self._client.create(body)

    async def _slice(self, node: str, wanted: Object) -> None:
        owner = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": self._uids[node], "controller": True}
        metadata = {**wanted["metadata"], "ownerReferences": [owner]}
        await self._shelf(RESOURCE_SLICE, {**wanted, "metadata": metadata})

    async def _shelf(self, resource: Resource, wanted: Object, *, keep_spec: bool = False) -> None:
        """Create the object; where it is there with another spec, bring it up to date as a new generation of its pool."""
        name = wanted["metadata"]["name"]
        try:
            await self._client.create(wanted)
            return
        except AlreadyExists:
            have = await self._client.get(resource, name)
        if keep_spec:
            return
        generation = have["spec"]["pool"]["generation"]
        owners = [o["uid"] for o in have["metadata"].get("ownerReferences") or ()]
        same_owner = owners == [o["uid"] for o in wanted["metadata"]["ownerReferences"]]
        spec = {**wanted["spec"], "pool": {**wanted["spec"]["pool"], "generation": generation}}
        if have["spec"] == spec and same_owner:
            return
        if have["spec"] != spec:
            spec["pool"]["generation"] = generation + 1
        await self._client.replace({**have, "metadata": {**have["metadata"], **wanted["metadata"]}, "spec": spec})

    async def _leave(self) -> None:
        """Remove nodes and slices of ours that the fleet file no longer has."""
        wanted = {
            NODE: {p.name for p in self._plans},
            RESOURCE_SLICE: {s["metadata"]["name"] for p in self._plans for s in p.slices},
        }
        for resource, names in wanted.items():
            for have in (await self._client.list(resource, labels={OWNED_LABEL: "true"})).items:
                if have["metadata"]["name"] not in names:
                    log.info("%s %s is not in the fleet any more", resource.plural, have["metadata"]["name"])
                    await self._client.delete(resource, have["metadata"]["name"])
