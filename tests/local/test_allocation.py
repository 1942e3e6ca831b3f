"""What kube-scheduler showed us about claims: when it gives up on a pod, which devices it takes, what it writes down."""

from __future__ import annotations

from typing import Any

import pytest

from modelplane.api.meta import Object
from modelplane.local.scheduler import amounts
from modelplane.local.scheduler.devices import SelectorError, allocated
from modelplane.local.scheduler.nodes import NodeView
from modelplane.local.scheduler.pools import Device, Shelf
from modelplane.local.scheduler.schedule import Bind, Snapshot, Unschedulable, schedule

from .objects import claim, device, device_class, node, pod, request, slice_


def selects(expression: str, found: Device) -> bool:
    """Stands for CEL: `big` asks for more than 40 GiB, `fails on X` fails on the device X."""
    if expression == f"fails on {found.name}":
        raise SelectorError("CEL runtime error: no such key: model")
    return expression != "big" or amounts.thousandths(found.capacity["memory"]["value"]) > amounts.thousandths("40Gi")


def decide(claims: Any, slices: Any, nodes: Any = None, others: Any = (), classes: Any = None) -> Bind | Unschedulable:
    known = classes or {"gpu.example.com": device_class()}
    views = [NodeView.of(each) for each in nodes or [node("a")]]
    return schedule(pod(), claims, Snapshot(views, known, Shelf(slices), allocated([*others, *claims])), selects)


def given(decision: Bind | Unschedulable, name: str = "c") -> list[str]:
    assert isinstance(decision, Bind)
    return [result["device"] for result in decision.allocations[name]["devices"]["results"]]


TWO = [device("g0"), device("g1")]
WHOLE = slice_("a", *TWO)
UPDATING = slice_("a", device("g0"), resourceSliceCount=2)
TWICE = [slice_("a", *TWO, name="x", resourceSliceCount=2), slice_("a", device("g1"), name="y", resourceSliceCount=2)]
ALL = request(allocationMode="All")
NUMA = [device("g0", numa={"int": 0}), device("g1", numa={"int": 1})]
SAME_NUMA = {"constraints": [{"matchAttribute": "gpu.example.com/numa"}]}
BROKEN = 'running "DynamicResources" filter plugin: '

WAITS = [
    ("a pool in which a name comes twice gives nothing", [claim("c", request(1))], TWICE,
     Unschedulable("0/1 nodes are available: 1 invalid resource pools were encountered.")),
    ("all devices of such a pool cannot be told", [claim("c", ALL)], TWICE, Unschedulable(
        f"{BROKEN}claim default/c, request gpu: asks for all devices, but resource pool gpu.example.com/a is currently invalid",
        "SchedulerError")),
    ("all devices of a half published pool cannot be told", [claim("c", ALL)], [UPDATING], Unschedulable(
        f"{BROKEN}claim default/c, request gpu: asks for all devices, but resource pool gpu.example.com/a is currently being "
        "updated",
        "SchedulerError")),
    ("a half published pool gives nothing", [claim("c", request(1))], [UPDATING],
     Unschedulable("0/1 nodes are available: 1 cannot allocate all claims.")),
    ("all devices that may not be together are a mistake of the claim",
     [claim("c", ALL, **SAME_NUMA)], [slice_("a", *NUMA)], Unschedulable(
        f"{BROKEN}claim default/c, request gpu: cannot add device gpu.example.com/a/g1 because a claim constraint would not be "
        "satisfied", "SchedulerError")),
    ("more capacity than any device has", [claim("c", request(1, capacity={"requests": {"memory": "81Gi"}}))], [WHOLE],
     Unschedulable("0/1 nodes are available: 1 cannot allocate all claims.")),
    ("a capacity that no device has", [claim("c", request(1, capacity={"requests": {"cores": "1"}}))], [WHOLE],
     Unschedulable("0/1 nodes are available: 1 cannot allocate all claims.")),
    ("an administrator's claim does not have one device twice",
     [claim("c", request(1, name="x", adminAccess=True), request(2, name="y", adminAccess=True))], [WHOLE],
     Unschedulable("0/1 nodes are available: 1 cannot allocate all claims.")),
    ("a class that is not there is named before any node is looked at", [claim("c", request(1, deviceClassName="nic"))], [WHOLE],
     Unschedulable("0/1 nodes are available: request gpu: device class nic does not exist.")),
    ("a claim has 32 devices at most", [claim("c", request(33))], [WHOLE], Unschedulable(
        f"{BROKEN}claim default/c: number of requested devices 33 exceeds the claim limit of 32", "SchedulerError")),
    ("devices that are shared or counted are left alone", [claim("c", request(1))],
     [slice_("a", {**device("s"), "allowMultipleAllocations": True}, {**device("t"), "consumesCounters": [{"counterSet": "x"}]})],
     Unschedulable("0/1 nodes are available: 1 cannot allocate all claims.")),
]  # fmt: skip


@pytest.mark.parametrize(("reason", "claims", "slices", "want"), WAITS, ids=[c[0] for c in WAITS])
def test_a_pod_waits(reason: str, claims: Any, slices: Any, want: Unschedulable) -> None:
    assert decide(claims, slices) == want, reason


def test_a_selector_that_fails_on_one_node_keeps_the_pod_from_every_node() -> None:
    slices = [slice_("a", device("bad")), slice_("b", device("good"))]
    got = decide([claim("c", request(1, "fails on bad"))], slices, [node("a"), node("b")])
    text = f"{BROKEN}claim default/c: selector #0: CEL runtime error: no such key: model"
    assert got == Unschedulable(text, "SchedulerError")


def test_a_selector_is_not_asked_about_devices_that_come_after_the_one_taken() -> None:
    asked = request(1, "fails on g1")
    assert given(decide([claim("c", asked)], [WHOLE])) == ["g0"]
    held = claim("x", allocated=[("gpu.example.com", "a", "g1")])
    assert given(decide([claim("c", request(1, "fails on g1"))], [WHOLE], others=[held])) == ["g0"]
    held = claim("x", allocated=[("gpu.example.com", "a", "g0")])
    assert isinstance(decide([claim("c", asked)], [WHOLE], others=[held]), Unschedulable)


def test_pools_are_tried_by_name_and_slices_by_theirs() -> None:
    far = slice_("", device("far"), name="a-slice", allNodes=True)
    far["spec"] |= {"nodeName": "", "allNodes": True, "pool": {"name": "z", "generation": 1, "resourceSliceCount": 1}}
    late, early = (
        slice_("a", device(name), name=stem, resourceSliceCount=2) for name, stem in (("late", "y"), ("early", "x"))
    )
    assert given(decide([claim("c", request(3))], [far, late, early])) == ["early", "late", "far"]


def test_an_old_generation_elsewhere_does_not_bring_a_pool_back() -> None:
    """The new slices are on another node only: what is left here is about to go."""
    old, new = slice_("a", device("g"), resourceSliceCount=2), slice_("b", device("h"), generation=2)
    new["spec"]["pool"]["name"] = "a"
    assert isinstance(decide([claim("c", request(1))], [old, new]), Unschedulable)


def test_a_claim_can_be_used_from_where_all_its_devices_can() -> None:
    everywhere = slice_("", device("g"))
    everywhere["spec"] |= {"nodeName": "", "allNodes": True}
    got = decide([claim("c", request(1))], [everywhere])
    assert isinstance(got, Bind)
    assert "nodeSelector" not in got.allocations["c"]
    zone = {"key": "zone", "operator": "In", "values": ["b"]}
    some = slice_("", device("g"))
    some["spec"] |= {"nodeName": "", "nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}}
    got = decide([claim("c", request(1))], [some], [node("a"), node("b", zone="b")])
    assert isinstance(got, Bind)
    assert got.node == "b"
    assert got.allocations["c"]["nodeSelector"] == {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}


def test_the_configuration_of_a_class_is_written_once_for_all_its_requests() -> None:
    opaque = {"opaque": {"driver": "gpu.example.com", "parameters": {}}}
    of_class = device_class()
    of_class["spec"]["config"] = [opaque]
    config = [{**opaque, "requests": ["y"]}, {"opaque": {"driver": "other.example.com", "parameters": {}}}]
    asked = claim("c", request(1, name="x"), request(1, name="y"), config=config)
    got = decide([asked], [WHOLE], classes={"gpu.example.com": of_class})
    assert isinstance(got, Bind)
    assert got.allocations["c"]["devices"]["config"] == [
        {"source": "FromClass", "requests": ["x", "y"], **opaque},
        {"source": "FromClaim", "requests": ["y"], **opaque},
        {"source": "FromClaim", "opaque": {"driver": "other.example.com", "parameters": {}}},
    ]


# --- apart from devices ----------------------------------------------------------------------------------------------


def port(number: int, **fields: str) -> Object:
    return {"name": "c", "ports": [{"containerPort": 80, "hostPort": number, **fields}]}


CLASHES = [
    ("one port, one address", [port(80)], False),
    ("another port", [port(81)], True),
    ("another protocol", [port(80, protocol="UDP")], True),
    ("an address of the host is one of all addresses", [port(80, hostIP="10.0.0.1")], False),
]


@pytest.mark.parametrize(("reason", "containers", "fits"), CLASHES, ids=[c[0] for c in CLASHES])
def test_a_port_of_the_host_is_taken_once(reason: str, containers: Any, fits: bool) -> None:
    there = pod("there")
    there["spec"]["containers"] = [port(80)]
    snapshot = Snapshot([NodeView.of(node("a"), [there])], {}, Shelf(()), ())
    asked = pod()
    asked["spec"]["containers"] = containers
    want = "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports."
    assert schedule(asked, (), snapshot, selects) == (Bind("a", {}) if fits else Unschedulable(want)), reason


def test_addresses_of_the_host_that_differ_do_not_clash() -> None:
    one, other = pod("one"), pod("other")
    one["spec"]["containers"], other["spec"]["containers"] = (
        [port(80, hostIP="10.0.0.1")],
        [port(80, hostIP="10.0.0.2")],
    )
    snapshot = Snapshot([NodeView.of(node("a"), [one])], {}, Shelf(()), ())
    assert schedule(other, (), snapshot, selects) == Bind("a", {})


def test_what_a_pod_asks_as_a_whole_stands_for_what_its_containers_ask() -> None:
    spec = {"containers": [{"name": "a", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]}
    assert amounts.pod_requests({**spec, "resources": {"requests": {"cpu": "3"}}})["cpu"] == 3000
    assert amounts.pod_requests({**spec, "resources": {"limits": {"cpu": "3"}}})["cpu"] == 1000, "containers said it"
    assert amounts.pod_requests({"containers": [{"name": "a"}], "resources": {"limits": {"cpu": "3"}}})["cpu"] == 3000


def test_affinity_that_names_nodes_is_told_from_affinity_that_describes_them() -> None:
    def named(*names: str) -> Object:
        fields = [{"key": "metadata.name", "operator": "In", "values": [name]} for name in names]
        required = {"nodeSelectorTerms": [{"matchFields": fields}]}
        return pod(affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}})

    snapshot = Snapshot([NodeView.of(node("a"))], {}, Shelf(()), ())
    text = "0/1 nodes are available: 1 node(s) didn't satisfy plugin(s) [NodeAffinity]."
    assert schedule(named("b"), (), snapshot, selects) == Unschedulable(text)
    text = "0/1 nodes are available: pod affinity terms conflict."
    assert schedule(named("a", "b"), (), snapshot, selects) == Unschedulable(text)
    assert schedule(named("a"), (), snapshot, selects) == Bind("a", {})
