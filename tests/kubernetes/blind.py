"""Schedulers that are blind to one thing each: ours, shown a cluster from which that thing was taken.

The comparison has to notice every one of them, or it proves nothing about what they do not see.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, Final

from modelplane.api.meta import Object
from modelplane.local.scheduler.devices import SelectorError, Selects, allocated
from modelplane.local.scheduler.nodes import NodeView
from modelplane.local.scheduler.pools import Device, Shelf
from modelplane.local.scheduler.schedule import Bind, Snapshot, schedule
from modelplane.local.scheduler.selectors import selects
from tests.kubernetes.verdicts import Decision, State, Verdict

View = Callable[[Object, State], tuple[Object, State]]
"""A pod and a cluster as the blind one sees them."""


def decide(pod: Object, state: State, asked: Selects = selects) -> Verdict:
    """Our decision from a state, without a server."""
    names = [each["resourceClaimName"] for each in pod["spec"].get("resourceClaims") or ()]
    on_node = {
        n["metadata"]["name"]: [p for p in state.pods if p["spec"]["nodeName"] == n["metadata"]["name"]]
        for n in state.nodes
    }
    snapshot = Snapshot(
        [NodeView.of(node, on_node[node["metadata"]["name"]]) for node in state.nodes],
        {each["metadata"]["name"]: each for each in state.classes},
        Shelf(state.slices),
        allocated(state.claims.values()),
    )
    decision = schedule(pod, [state.claims[name] for name in names], snapshot, asked)
    if isinstance(decision, Bind):
        return Verdict(decision.node, decision.allocations)
    return Verdict(None, {}, decision.reason, decision.message)


@dataclass(frozen=True)
class Blind:
    """``to`` completes the sentence: a scheduler that is blind to ..."""

    to: str
    view: View = lambda pod, state: (pod, state)
    asked: Selects = selects

    def verdict(self, decision: Decision) -> Verdict:
        return decide(*self.view(deepcopy(decision.pod), deepcopy(decision.state)), self.asked)


def _spec(*fields: str) -> View:
    """Without fields of the pod's spec."""

    def view(pod: Object, state: State) -> tuple[Object, State]:
        return {**pod, "spec": {key: value for key, value in pod["spec"].items() if key not in fields}}, state

    return view


def _containers(field: str) -> View:
    def view(pod: Object, state: State) -> tuple[Object, State]:
        for each in (pod, *state.pods):
            for container in each["spec"]["containers"]:
                container.pop(field, None)
        return pod, state

    return view


def _each(kind: str, change: Callable[[Object], object]) -> View:
    """With every node, slice or class changed in place."""

    def view(pod: Object, state: State) -> tuple[Object, State]:
        for each in getattr(state, kind):
            change(each)
        return pod, state

    return view


def _devices(change: Callable[[Object], object]) -> View:
    return _each("slices", lambda piece: [change(device) for device in piece["spec"]["devices"]])


def _asks(change: Callable[[dict[str, Any]], object]) -> View:
    """With every request of every claim that is not allocated changed in place."""

    def view(pod: Object, state: State) -> tuple[Object, State]:
        for claim in state.claims.values():
            for request in claim["spec"]["devices"]["requests"]:
                for ask in request.get("firstAvailable") or [request["exactly"]]:
                    change(ask)
        return pod, state

    return view


def _claims(change: Callable[[Object], object]) -> View:
    def view(pod: Object, state: State) -> tuple[Object, State]:
        for claim in state.claims.values():
            change(claim)
        return pod, state

    return view


def _allocations(change: Callable[[dict[str, Any]], object]) -> View:
    return _claims(lambda claim: change((claim.get("status") or {}).get("allocation") or {}))


def _few(ask: dict[str, Any]) -> None:
    if ask["allocationMode"] == "All":
        ask.update(allocationMode="ExactCount", count=1)


def _anything(expression: str, device: Device) -> bool:
    return True


def _forgiving(expression: str, device: Device) -> bool:
    try:
        return selects(expression, device)
    except SelectorError:
        return False


def _whole(piece: Object) -> None:
    piece["spec"]["pool"]["resourceSliceCount"] = 1


def _everywhere(piece: Object) -> None:
    for field in ("nodeName", "nodeSelector", "perDeviceNodeSelection"):
        piece["spec"].pop(field, None)
    piece["spec"]["allNodes"] = True


def _first(claim: Object) -> None:
    for request in claim["spec"]["devices"]["requests"]:
        if request.get("firstAvailable"):
            request["firstAvailable"] = request["firstAvailable"][:1]


def _forgets_pods(pod: Object, state: State) -> tuple[Object, State]:
    return pod, replace(state, pods=[])


def _old(piece: Object) -> None:
    piece["spec"]["pool"]["generation"] = 1


def _settled(claim: Object) -> Mapping[str, Any]:
    return claim["spec"]["devices"].pop("constraints", {})


BLIND: Final = [
    Blind("taints of nodes", _each("nodes", lambda node: node["spec"].pop("taints", None))),
    Blind("cordons", _each("nodes", lambda node: node["spec"].pop("unschedulable", None))),
    Blind("tolerations", _spec("tolerations")),
    Blind("node selectors", _spec("nodeSelector")),
    Blind("affinity", _spec("affinity")),
    Blind("what containers ask", _containers("resources")),
    Blind("what init containers ask", _spec("initContainers")),
    Blind("what pods ask as a whole", _spec("resources")),
    Blind("host ports", _containers("ports")),
    Blind("how many pods a node takes", _each("nodes", lambda node: node["status"]["allocatable"].update(pods="110"))),
    Blind("pods that are there already", _forgets_pods),
    Blind("what other claims hold", _allocations(lambda allocation: allocation.get("devices", {}).clear())),
    Blind("where a claim can be used", _allocations(lambda allocation: allocation.pop("nodeSelector", None))),
    Blind("selectors of classes", _each("classes", lambda each: each["spec"].pop("selectors", None))),
    Blind("selectors of requests", _asks(lambda ask: ask.pop("selectors", None))),
    Blind("every selector", asked=_anything),
    Blind("selectors that fail", asked=_forgiving),
    Blind("taints of devices", _devices(lambda device: device.pop("taints", None))),
    Blind("tolerations of requests", _asks(lambda ask: ask.pop("tolerations", None))),
    Blind("capacity", _asks(lambda ask: ask.pop("capacity", None))),
    Blind("counts", _asks(lambda ask: ask.update(count=1))),
    Blind("that all means all", _asks(_few)),
    Blind("later alternatives", _claims(_first)),
    Blind("constraints", _claims(_settled)),
    Blind("administrators", _asks(lambda ask: ask.pop("adminAccess", None))),
    Blind("missing slices", _each("slices", _whole)),
    Blind("generations of pools", _each("slices", _old)),
    Blind("where devices are", _each("slices", _everywhere)),
]
