"""A node whose Lease stands still loses its pods' trust, then its pods; against a real API server."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from modelplane.api.meta import Object
from modelplane.errors import NotFound
from modelplane.kube import Client
from modelplane.local import clock
from modelplane.local.caches import Caches
from modelplane.local.controllers.lifecycle import LEASES, NodeLifecycle, evict_after, wanted_taints
from modelplane.local.kinds import LEASE, NODE, POD

from .objects import pod

UNREACHABLE = "node.kubernetes.io/unreachable"
LOST = [{"key": UNREACHABLE, "effect": "NoSchedule"}, {"key": UNREACHABLE, "effect": "NoExecute"}]

TOLERATED = [
    ("a lost node is borne for five minutes by default", [], LOST, 300),
    ("as long as the pod says",
     [{"key": UNREACHABLE, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 20}], LOST, 20),
    ("for ever", [{"operator": "Exists"}], LOST, None),
    ("a drain is not borne at all", [], [{"key": "modelplane.ai/drain", "effect": "NoExecute"}], 0),
    ("NoSchedule evicts nobody", [], [{"key": "x", "effect": "NoSchedule"}], None),
    ("the shortest time of several tolerations counts",
     [{"operator": "Exists", "tolerationSeconds": 9}, {"key": UNREACHABLE, "operator": "Exists", "tolerationSeconds": 5}], LOST, 5),
]  # fmt: skip


@pytest.mark.parametrize(("reason", "tolerations", "taints", "want"), TOLERATED, ids=[t[0] for t in TOLERATED])
def test_how_long_a_pod_stays(reason: str, tolerations: Any, taints: Any, want: float | None) -> None:
    assert evict_after(pod("p", tolerations=tolerations), taints) == want, reason


def node(ready: str, *taints: Object, unschedulable: bool = False) -> Object:
    spec: Object = {"taints": list(taints), "unschedulable": unschedulable}
    return {"metadata": {"name": "n"}, "spec": spec, "status": {"conditions": [{"type": "Ready", "status": ready}]}}


OWN = {"key": "gpu", "effect": "NoSchedule"}


def test_taints_follow_the_ready_condition_and_the_cordon_and_leave_others_alone() -> None:
    keys = lambda found: [(t["key"], t["effect"]) for t in wanted_taints(found, "now")]  # noqa: E731
    assert keys(node("True", OWN, *LOST)) == [("gpu", "NoSchedule")]
    assert keys(node("Unknown", OWN)) == [
        ("gpu", "NoSchedule"),
        (UNREACHABLE, "NoSchedule"),
        (UNREACHABLE, "NoExecute"),
    ]
    assert keys(node("False"))[1] == ("node.kubernetes.io/not-ready", "NoExecute")
    assert keys(node("True", unschedulable=True)) == [("node.kubernetes.io/unschedulable", "NoSchedule")]


@pytest.fixture
async def client(server_alone: Client) -> Client:
    return server_alone


async def test_a_silent_node_is_tainted_its_pods_evicted_and_forgiven_when_it_speaks(
    client: Client, eventually: Any
) -> None:
    made = await client.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": {}})
    well = {"status": {"conditions": [{"type": "Ready", "status": "True"}], "capacity": {"pods": "9"}}}
    await client.patch(NODE, "n", None, well, subresource="status")
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "n", "namespace": LEASES}}
    await client.create({**lease, "spec": {"renewTime": clock.micro_stamp()}})
    spec = {"containers": [{"name": "c", "image": "x"}], "nodeName": "n", "terminationGracePeriodSeconds": 0}
    short = [{"key": UNREACHABLE, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}]
    for name, more in (("short", {"tolerations": short}), ("long", {})):
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {**spec, **more},
        }
        await client.create(body)
    caches = Caches(client)
    lifecycle = NodeLifecycle(client, caches, grace=1.0)
    running = [asyncio.create_task(caches.run()), asyncio.create_task(lifecycle.run())]
    try:

        async def taints() -> set[str]:
            found = await client.get(NODE, "n")
            return {t["key"] for t in found["spec"].get("taints") or ()}

        async def gone() -> bool:
            try:
                found = await client.get(POD, "short", "default")
            except NotFound:
                return True
            return "deletionTimestamp" in found["metadata"]

        async def lost() -> bool:
            return UNREACHABLE in await taints()

        await eventually(lost)
        ready = (await client.get(NODE, "n"))["status"]["conditions"][0]
        assert (ready["status"], ready["reason"]) == ("Unknown", "NodeStatusUnknown")
        await eventually(gone)
        assert "deletionTimestamp" not in (await client.get(POD, "long", "default"))["metadata"]

        await client.patch(LEASE, "n", LEASES, {"spec": {"renewTime": clock.micro_stamp()}})
        await client.patch(NODE, "n", None, well, subresource="status")

        async def forgiven() -> bool:
            return UNREACHABLE not in await taints()

        await eventually(forgiven)
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
    assert made["metadata"]["name"] == "n"
