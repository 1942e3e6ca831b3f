"""Whether a verdict is one that kube-scheduler could have given: read off the objects, device by device.

Shares nothing with our scheduler but the evaluation of CEL, which is held against kube-scheduler's own elsewhere. It knows what is
allowed and does not look for what is possible: whether a pod can be bound at all is kube-scheduler's word.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from modelplane.api.meta import Object
from modelplane.plan.cel import BoundDevice, Match, compile_selector
from modelplane.plan.quantity import parse_quantity
from tests.kubernetes.verdicts import Decision, State, Verdict

BLOCKING: Final = ("NoSchedule", "NoExecute")


def faults(decision: Decision, verdict: Verdict) -> list[str]:
    """What is wrong with a verdict about this decision's pod, given what kube-scheduler said about it."""
    real = decision.real
    if (verdict.node is None) != (real.node is None):
        said = real.node or f"{real.reason}: {real.message}"
        return [f"{verdict.node or f'{verdict.reason}: {verdict.message}'}, but kube-scheduler: {said}"]
    if verdict.node is None:
        return [] if verdict.reason == real.reason else [f"waits for {verdict.reason}, there for {real.reason}"]
    found = [
        *node_faults(decision.state, decision.pod, verdict.node),
        *claim_faults(decision.state, decision.pod, verdict),
    ]
    if verdict.node == real.node:
        for name, allocation in real.allocations.items():
            there = name in verdict.allocations
            if there and timeless(verdict.allocations[name]) != timeless(allocation):
                found.append(f"on the same node claim {name} has {verdict.allocations[name]}, there {allocation}")
    return found


def timeless(allocation: Mapping[str, Any] | None) -> Object:
    return {key: value for key, value in (allocation or {}).items() if key != "allocationTimestamp"}


# --- the node --------------------------------------------------------------------------------------------------------


def node_faults(state: State, pod: Object, name: str) -> Iterator[str]:
    """Why the pod may not be on the node, devices apart."""
    node = next((each for each in state.nodes if each["metadata"]["name"] == name), None)
    if node is None:
        yield f"there is no node {name}"
        return
    spec, labels = pod["spec"], node["metadata"].get("labels") or {}
    tolerations = spec.get("tolerations") or ()
    if node["spec"].get("unschedulable") and not any(
        t.get("operator") == "Exists" and not t.get("key") for t in tolerations
    ):
        yield f"{name} is cordoned"
    for taint in node["spec"].get("taints") or ():
        if taint["effect"] in BLOCKING and not any(_tolerates(t, taint) for t in tolerations):
            yield f"{name} has the taint {taint}"
    if not set((spec.get("nodeSelector") or {}).items()) <= set(labels.items()):
        yield f"{name} lacks a label of the nodeSelector"
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    wanted = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if wanted and not _selected(wanted, node):
        yield f"{name} is not what the affinity wants"
    here = [each for each in state.pods if each["spec"]["nodeName"] == name]
    room = {key: _number(value) for key, value in node["status"]["allocatable"].items()}
    if len(here) + 1 > room.get("pods", 0):
        yield f"{name} has too many pods"
    asked: Counter[str] = Counter()
    for each in (pod, *here):
        asked.update(_asked(each["spec"]))
    for resource, amount in _asked(spec).items():
        if amount and asked[resource] > room.get(resource, 0):
            yield f"{name} has too little {resource}"
    for port in _ports(spec):
        for other in (p for each in here for p in _ports(each["spec"])):
            either = {port[0], other[0]}
            if port[1:] == other[1:] and (len(either) == 1 or "0.0.0.0" in either):
                yield f"port {port} of {name} is taken"


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    return (
        toleration.get("effect") in (None, "", taint["effect"])
        and toleration.get("key") in (None, "", taint["key"])
        and (toleration.get("operator") == "Exists" or toleration.get("value", "") == taint.get("value", ""))
    )


def _selected(selector: Mapping[str, Any], node: Object) -> bool:
    labels = node["metadata"].get("labels") or {}
    fields = {"metadata.name": node["metadata"]["name"]}
    return any(
        all(_holds(e, labels) for e in term.get("matchExpressions") or ())
        and all(_holds(e, fields) for e in term.get("matchFields") or ())
        for term in selector["nodeSelectorTerms"]
    )


def _holds(expression: Mapping[str, Any], values: Mapping[str, str]) -> bool:
    have, wanted = values.get(expression["key"]), expression.get("values") or ()
    number = int(have) if have is not None and have.isdigit() else None
    return {
        "In": lambda: have in wanted,
        "NotIn": lambda: have not in wanted,
        "Exists": lambda: have is not None,
        "DoesNotExist": lambda: have is None,
        "Gt": lambda: number is not None and number > int(wanted[0]),
        "Lt": lambda: number is not None and number < int(wanted[0]),
    }[expression["operator"]]()


def _number(quantity: str) -> Decimal:
    parsed = parse_quantity(str(quantity))
    return Decimal(parsed.unscaled).scaleb(parsed.exponent)


def _asked(spec: Mapping[str, Any]) -> Counter[str]:
    def of(container: Mapping[str, Any]) -> Counter[str]:
        resources = container.get("resources") or {}
        asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
        return Counter({key: _number(value) for key, value in asked.items()})  # type: ignore[misc]

    running: Counter[str] = Counter()
    for container in spec["containers"]:
        running.update(of(container))
    highest, beside = Counter[str](), Counter[str]()
    for container in spec.get("initContainers") or ():
        stays = container.get("restartPolicy") == "Always"
        highest |= beside + of(container)
        if stays:
            beside.update(of(container))
    total = (running + beside) | highest
    for key, value in ((spec.get("resources") or {}).get("requests") or {}).items():
        total[key] = _number(value)  # type: ignore[assignment]
    return total


def _ports(spec: Mapping[str, Any]) -> list[tuple[str, str, int]]:
    return [
        (port.get("hostIP") or "0.0.0.0", port["protocol"], port["hostPort"])
        for container in spec["containers"]
        for port in container.get("ports") or ()
        if port.get("hostPort")
    ]


# --- the devices -----------------------------------------------------------------------------------------------------


def claim_faults(state: State, pod: Object, verdict: Verdict) -> Iterator[str]:
    """What is wrong with the allocations of the pod's claims, those that they had already included."""
    node = next(each for each in state.nodes if each["metadata"]["name"] == verdict.node)
    held = [result for claim in state.claims.values() for result in _results(claim.get("status", {}).get("allocation"))]
    taken = {_id(result) for result in held if not result.get("adminAccess")}
    for reference in pod["spec"].get("resourceClaims") or ():
        claim = state.claims[reference["resourceClaimName"]]
        name, before = claim["metadata"]["name"], claim.get("status", {}).get("allocation")
        if before is not None:
            selector = before.get("nodeSelector")
            if selector and not _selected(selector, node):
                yield f"claim {name} cannot be used from {verdict.node}"
            continue
        allocation = verdict.allocations.get(name)
        if allocation is None:
            yield f"claim {name} is not allocated"
            continue
        yield from (f"claim {name}: {fault}" for fault in _claim_faults(state, node, claim, allocation, taken))
        taken |= {_id(result) for result in _results(allocation) if not result.get("adminAccess")}


def _results(allocation: Mapping[str, Any] | None) -> Sequence[Mapping[str, Any]]:
    found: Sequence[Mapping[str, Any]] = (allocation or {}).get("devices", {}).get("results") or ()
    return found


def _id(result: Mapping[str, Any]) -> tuple[str, str, str]:
    return (result["driver"], result["pool"], result["device"])


def _claim_faults(
    state: State, node: Object, claim: Object, allocation: Mapping[str, Any], taken: set[tuple[str, str, str]]
) -> Iterator[str]:
    usable = _usable(state, node)
    results = _results(allocation)
    of_request: dict[str, list[Mapping[str, Any]]] = {}
    for result in results:
        of_request.setdefault(result["request"], []).append(result)
    seen: set[tuple[str, str, str]] = set()
    for result in results:
        device = _id(result)
        if device in seen:
            yield f"{device} is given twice"
        seen.add(device)
        if device not in usable:
            yield f"{device} cannot be used from {node['metadata']['name']}"
        if device in taken and not result.get("adminAccess"):
            yield f"{device} is not free"
    devices = claim["spec"]["devices"]
    for request in devices["requests"]:
        asks = [(f"{request['name']}/{sub['name']}", sub) for sub in request.get("firstAvailable") or ()]
        chosen = [(n, a) for n, a in asks or [(request["name"], request["exactly"])] if n in of_request]
        if len(chosen) != 1:
            yield f"request {request['name']} got devices for {[n for n, _ in chosen]}"
            continue
        name, ask = chosen[0]
        given = of_request.pop(name)
        yield from (f"request {name}: {fault}" for fault in _ask_faults(state, usable, ask, given))
    for name in of_request:
        yield f"nobody asked for {name}"
    for constraint in devices.get("constraints") or ():
        yield from _constraint_faults(constraint, results, usable)
    yield from _reach_faults(state, node, allocation)


def _ask_faults(
    state: State,
    usable: Mapping[tuple[str, str, str], Object],
    ask: Mapping[str, Any],
    given: Sequence[Mapping[str, Any]],
) -> Iterator[str]:
    of_class = next(c for c in state.classes if c["metadata"]["name"] == ask["deviceClassName"])
    selectors = [
        s["cel"]["expression"] for s in (*(of_class["spec"].get("selectors") or ()), *(ask.get("selectors") or ()))
    ]
    least = (ask.get("capacity") or {}).get("requests") or {}

    def fits(device: tuple[str, str, str]) -> bool:
        found = usable[device]
        capacity = found.get("capacity") or {}
        bound = BoundDevice(device[0], found.get("attributes") or {}, capacity)
        return all(isinstance(compile_selector(s).evaluate(bound), Match) for s in selectors) and all(
            name in capacity and _number(capacity[name]["value"]) >= _number(value) for name, value in least.items()
        )

    for result in given:
        device = _id(result)
        if device not in usable:
            continue
        if not fits(device):
            yield f"{device} is not what was asked for"
        for taint in usable[device].get("taints") or ():
            if taint["effect"] in BLOCKING and not any(_tolerates(t, taint) for t in ask.get("tolerations") or ()):
                yield f"{device} has the taint {taint}"
        if bool(result.get("adminAccess")) != bool(ask.get("adminAccess")):
            yield f"{device} has the wrong access"
    if ask["allocationMode"] == "All":
        if {_id(result) for result in given} != {device for device in usable if fits(device)}:
            yield "these are not all"
    elif len(given) != ask["count"]:
        yield f"{len(given)} devices instead of {ask['count']}"


def _constraint_faults(
    constraint: Mapping[str, Any], results: Sequence[Mapping[str, Any]], usable: Mapping[tuple[str, str, str], Object]
) -> Iterator[str]:
    """Distinct values are asked of neighbours in different requests alone: see `_Distinct` of our scheduler."""
    named = constraint.get("requests") or ()
    attribute = constraint.get("matchAttribute") or constraint["distinctAttribute"]
    domain, _, short = attribute.partition("/")
    values: dict[str, list[Any]] = {}
    for result in results:
        request = result["request"]
        if _id(result) in usable and (not named or request in named or request.partition("/")[0] in named):
            attributes = usable[_id(result)].get("attributes") or {}
            value = attributes.get(attribute) or (attributes.get(short) if domain == result["driver"] else None)
            if value is None:
                yield f"{_id(result)} lacks {attribute}"
            values.setdefault(request, []).append(value)
    if "matchAttribute" in constraint:
        every = [value for of in values.values() for value in of]
        if any(value != every[0] for value in every):
            yield f"{attribute} differs"
        return
    last = [of[-1] for of in values.values()]
    if any(value in last[:number] for number, value in enumerate(last)):
        yield f"{attribute} is the same for two requests"


def _reach_faults(state: State, node: Object, allocation: Mapping[str, Any]) -> Iterator[str]:
    """A claim may be used exactly from where all its devices can be."""
    selector = allocation.get("nodeSelector")
    if selector and not _selected(selector, node):
        yield f"its selector leaves out {node['metadata']['name']}"
    for other in state.nodes:
        usable = _usable(state, other)
        reached = all(_id(result) in usable for result in _results(allocation))
        if bool(not selector or _selected(selector, other)) != reached:
            yield f"from {other['metadata']['name']} its devices can{'' if reached else 'not'} be used"


def _usable(state: State, node: Object) -> dict[tuple[str, str, str], Object]:
    """Devices of whole, newest pools that the node reaches."""
    pools: dict[tuple[str, str], list[Object]] = {}
    for piece in state.slices:
        pools.setdefault((piece["spec"]["driver"], piece["spec"]["pool"]["name"]), []).append(piece)
    found: dict[tuple[str, str, str], Object] = {}
    for (driver, name), pieces in pools.items():
        newest = max(piece["spec"]["pool"]["generation"] for piece in pieces)
        current = [piece for piece in pieces if piece["spec"]["pool"]["generation"] == newest]
        if len(current) != current[0]["spec"]["pool"]["resourceSliceCount"]:
            continue
        devices = [(piece["spec"], device) for piece in current for device in piece["spec"]["devices"]]
        if len({device["name"] for _, device in devices}) < len(devices):
            continue
        for spec, device in devices:
            reach = device if spec.get("perDeviceNodeSelection") else spec
            if reach.get("nodeName") == node["metadata"]["name"] or (
                reach.get("nodeSelector") and _selected(reach["nodeSelector"], node)
            ):
                found[(driver, name, device["name"])] = device
    return found
