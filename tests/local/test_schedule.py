"""Where a pod goes, and what is said when it goes nowhere."""

from __future__ import annotations

from typing import Any

import pytest

from modelplane.api.meta import Object
from modelplane.local.scheduler import amounts
from modelplane.local.scheduler.devices import SelectorError, allocated
from modelplane.local.scheduler.nodes import NodeView
from modelplane.local.scheduler.pools import Device, Shelf
from modelplane.local.scheduler.schedule import Bind, Snapshot, Unschedulable, schedule, unusable

from .objects import claim, device, device_class, node, pod, request, slice_


def selects(expression: str, found: Device) -> bool:
    """Stands for CEL: `big` asks for more than 40 GiB, `broken` fails."""
    if expression == "broken":
        raise SelectorError("CEL runtime error: no such key: memory")
    return amounts.thousandths(found.capacity["memory"]["value"]) > amounts.thousandths("40Gi")


def decide(
    asked: Object, nodes: list[Object], claims: Any = (), slices: Any = (), others: Any = (), pods: Any = ()
) -> Any:
    views = [NodeView.of(n, [p for p in pods if p["spec"].get("nodeName") == n["metadata"]["name"]]) for n in nodes]
    classes = {"gpu.example.com": device_class()}
    return schedule(asked, claims, Snapshot(views, classes, Shelf(slices), allocated([*others, *claims])), selects)


TAINT = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
AFFINITY = {"key": "zone", "operator": "In", "values": ["b"]}


def required(*expressions: Object, **fields: Any) -> Object:
    term = {"matchExpressions": list(expressions), **fields}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


FITS = [
    ("the emptier node is preferred", pod(requests={"cpu": "1"}), [node("a"), node("b")], "b"),
    ("a nodeSelector has to match", pod(nodeSelector={"zone": "b"}), [node("a"), node("b", zone="b")], "b"),
    ("required affinity has to match",
     pod(affinity=required(AFFINITY)), [node("a", zone="a"), node("b", zone="b")], "b"),
    (
        "affinity by field names a node",
        pod(affinity=required(matchFields=[{"key": "metadata.name", "operator": "In", "values": ["b"]}])),
        [node("a"), node("b")],
        "b",
    ),
    ("a toleration opens a tainted node",
     pod(tolerations=[{"key": "gpu", "operator": "Exists"}]), [node("a", taints=[TAINT])], "a"),
    ("an effect in a toleration has to be the taint's",
     pod(tolerations=[{**TAINT, "operator": "Equal"}]), [node("a", taints=[TAINT])], "a"),
]  # fmt: skip


@pytest.mark.parametrize(("reason", "asked", "nodes", "want"), FITS, ids=[c[0] for c in FITS])
def test_a_pod_goes_to_the_node_that_fits_best(reason: str, asked: Object, nodes: list[Object], want: str) -> None:
    busy = pod("busy", requests={"cpu": "4"}, nodeName="a")
    assert decide(asked, nodes, pods=[busy]) == Bind(want, {}), reason


REFUSED = [
    ("no nodes at all", pod(), [], "no nodes available to schedule pods"),
    ("too little CPU is counted over all nodes", pod(requests={"cpu": "9"}), [node("a"), node("b")],
     "0/2 nodes are available: 2 Insufficient cpu."),
    ("two shortages of one node are both named", pod(requests={"cpu": "9", "memory": "1Ti"}), [node("a")],
     "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory."),
    ("a full node says so", pod(), [node("a", pods="0")], "0/1 nodes are available: 1 Too many pods."),
    ("a taint is named", pod(), [node("a", taints=[TAINT])],
     "0/1 nodes are available: 1 node(s) had untolerated taint(s)."),
    ("reasons are sorted as text",
     pod(nodeSelector={"zone": "b"}, requests={"cpu": "9"}), [node("a", zone="b"), node("b"), node("c")],
     "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't match Pod's node affinity/selector."),
    ("an extended resource that no node has", pod(requests={"nvidia.com/gpu": "1"}), [node("a")],
     "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."),
]  # fmt: skip


@pytest.mark.parametrize(("reason", "asked", "nodes", "want"), REFUSED, ids=[c[0] for c in REFUSED])
def test_a_refusal_speaks_as_kube_scheduler_does(reason: str, asked: Object, nodes: list[Object], want: str) -> None:
    assert decide(asked, nodes) == Unschedulable(want), reason


def test_a_cordoned_node_takes_nobody_without_the_toleration() -> None:
    cordoned = node("a")
    cordoned["spec"]["unschedulable"] = True
    assert decide(pod(), [cordoned]) == Unschedulable("0/1 nodes are available: 1 node(s) were unschedulable.")
    everything = pod(tolerations=[{"operator": "Exists"}])
    assert decide(everything, [cordoned]) == Bind("a", {})


TWO = [device("gpu-0"), device("gpu-1")]
G0, G1 = ("gpu.example.com", "a", "gpu-0"), ("gpu.example.com", "a", "gpu-1")

DEVICES = [
    ("one of two", [claim("c", request(1))], TWO, (), [["gpu-0"]]),
    ("a device that another claim holds is not given again",
     [claim("c", request(1))], TWO, [claim("x", allocated=[G0])], [["gpu-1"]]),
    ("two claims of one pod get different devices",
     [claim("c", request(1)), claim("d", request(1))], TWO, (), [["gpu-0"], ["gpu-1"]]),
    ("All takes every match", [claim("c", request(allocationMode="All"))], TWO, (), [["gpu-0", "gpu-1"]]),
    ("All of which one is taken fails",
     [claim("c", request(allocationMode="All"))], TWO, [claim("x", allocated=[G1])], None),
    ("more than there are", [claim("c", request(3))], TWO, (), None),
    ("a selector leaves the small ones out",
     [claim("c", request(1, "big"))], [device("s", "16Gi"), device("b")], (), [["b"]]),
    ("an earlier request gives way to a picky later one",
     [claim("c", request(1, name="any"), request(1, "big", name="large"))], [device("b"), device("s", "16Gi")], (), [["s", "b"]]),
    ("matchAttribute holds devices together",
     [claim("c", request(2), constraints=[{"matchAttribute": "gpu.example.com/numa"}])],
     [device("g0", numa={"int": 0}), device("g1", numa={"int": 1}), device("g2", numa={"int": 1})], (), [["g1", "g2"]]),
    ("firstAvailable falls back to its next alternative",
     [claim("c", {"name": "r", "firstAvailable": [{"name": "many", "deviceClassName": "gpu.example.com", "count": 5},
                                                  {"name": "one", "deviceClassName": "gpu.example.com", "count": 1}]})],
     TWO, (), [["gpu-0"]]),
    ("admin access may share",
     [claim("c", request(1, adminAccess=True))], [device("gpu-0")], [claim("x", allocated=[G0])], [["gpu-0"]]),
    ("a tainted device needs a toleration",
     [claim("c", request(1))], [{**device("g"), "taints": [{"key": "bad", "effect": "NoSchedule"}]}],
     (), None),
]  # fmt: skip


@pytest.mark.parametrize(("reason", "claims", "devices", "others", "want"), DEVICES, ids=[c[0] for c in DEVICES])
def test_devices_are_allocated(
    reason: str, claims: list[Object], devices: list[Object], others: Any, want: Any
) -> None:
    got = decide(pod(), [node("a")], claims, [slice_("a", *devices)], others)
    if want is None:
        assert got == Unschedulable("0/1 nodes are available: 1 cannot allocate all claims."), reason
        return
    given = [[r["device"] for r in got.allocations[c["metadata"]["name"]]["devices"]["results"]] for c in claims]
    assert given == want, reason


def test_an_allocation_is_tied_to_its_node_and_names_its_request() -> None:
    got = decide(pod(), [node("a"), node("b")], [claim("c", request(1))], [slice_("b", device("g"))])
    assert got.node == "b"
    assert got.allocations["c"] == {
        "devices": {"results": [{"request": "gpu", "driver": "gpu.example.com", "pool": "b", "device": "g"}]},
        "nodeSelector": {
            "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}]
        },
    }


def test_only_the_newest_complete_generation_of_a_pool_counts() -> None:
    old, new = slice_("a", device("old"), generation=1), slice_("a", device("new"), generation=2)
    got = decide(pod(), [node("a")], [claim("c", request(1))], [old, new])
    assert got.allocations["c"]["devices"]["results"][0]["device"] == "new"
    half = slice_("a", device("new"), generation=3, resourceSliceCount=2)
    assert isinstance(decide(pod(), [node("a")], [claim("c", request(1))], [old, half]), Unschedulable)


def test_a_selector_that_fails_is_named_with_its_claim_and_request() -> None:
    got = decide(pod(), [node("a")], [claim("c", request(1, "broken"))], [slice_("a", device("g"))])
    text = "claim default/c: selector #0: CEL runtime error: no such key: memory"
    assert got == Unschedulable(f'running "DynamicResources" filter plugin: {text}', "SchedulerError")


def test_a_claim_allocated_elsewhere_holds_the_pod_to_that_node() -> None:
    held = decide(pod(), [node("a"), node("b")], [claim("c", request(1))], [slice_("b", device("g"))])
    shared = claim("c", request(1))
    shared["status"] = {"allocation": held.allocations["c"]}
    assert decide(pod(), [node("a"), node("b")], [shared]) == Bind("b", {})
    assert decide(pod(), [node("a")], [shared]) == Unschedulable(
        "0/1 nodes are available: 1 resourceclaim not available on the node."
    )


def test_a_claim_that_was_made_for_another_pod_is_refused() -> None:
    other = claim("c", request(1))
    other["metadata"]["ownerReferences"] = [
        {"kind": "Pod", "name": "p", "uid": "uid-of-a-former-p", "controller": True}
    ]
    assert unusable(other, pod("p")) == 'resourceclaim "c" was not created for pod "p"'


def test_init_containers_count_by_the_largest_and_sidecars_with_the_rest() -> None:
    spec = {
        "containers": [
            {"name": "a", "resources": {"requests": {"cpu": "1"}}},
            {"name": "b", "resources": {"limits": {"cpu": "500m"}}},
        ],
        "initContainers": [
            {"name": "side", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}},
            {"name": "big", "resources": {"requests": {"cpu": "3"}}},
        ],
        "overhead": {"cpu": "100m"},
    }
    assert amounts.pod_requests(spec) == {"cpu": 4100}
