"""Whether a pod fits a node, apart from devices: cordon, taints, affinity, host ports, resources; with kube-scheduler's words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from modelplane.api.meta import Object
from modelplane.local.scheduler import amounts
from modelplane.local.scheduler.amounts import Amounts

UNSCHEDULABLE: Final = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
BLOCKING: Final = ("NoSchedule", "NoExecute")
EVERY_ADDRESS: Final = "0.0.0.0"

HostPort: TypeAlias = tuple[str, str, int]
"""Address of the host, protocol, port."""


@dataclass(slots=True)
class NodeView:
    """A node and what its pods ask of it."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Mapping[str, str]] = ()
    unschedulable: bool = False
    allocatable: Amounts = field(default_factory=dict)
    requested: Amounts = field(default_factory=dict)
    pods: int = 0
    ports: set[HostPort] = field(default_factory=set)

    @classmethod
    def of(cls, node: Object, pods: Iterable[Object] = ()) -> NodeView:
        spec, status = node.get("spec") or {}, node.get("status") or {}
        view = cls(
            name=node["metadata"]["name"],
            labels=node["metadata"].get("labels") or {},
            taints=spec.get("taints") or (),
            unschedulable=bool(spec.get("unschedulable")),
            allocatable=amounts.read(status.get("allocatable") or status.get("capacity")),
        )
        for pod in pods:
            amounts.add(view.requested, amounts.pod_requests(pod["spec"]))
            view.pods += 1
            view.ports |= host_ports(pod["spec"])
        return view


def host_ports(spec: Mapping[str, Any]) -> set[HostPort]:
    """Ports of the node itself that the pod takes as long as it runs."""
    sidecars = [each for each in spec.get("initContainers") or () if each.get("restartPolicy") == "Always"]
    return {
        (port.get("hostIP") or EVERY_ADDRESS, port.get("protocol") or "TCP", port["hostPort"])
        for container in (*sidecars, *(spec.get("containers") or ()))
        for port in container.get("ports") or ()
        if port.get("hostPort")
    }


def _clash(one: HostPort, other: HostPort) -> bool:
    return one[1:] == other[1:] and (one[0] == other[0] or EVERY_ADDRESS in (one[0], other[0]))


def tolerates(tolerations: Iterable[Mapping[str, Any]], taint: Mapping[str, Any]) -> bool:
    """Whether one of the tolerations matches the taint."""
    for toleration in tolerations:
        if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
            continue
        if toleration.get("key") and toleration["key"] != taint.get("key"):
            continue
        if toleration.get("operator", "Equal") == "Exists":
            return True
        if toleration.get("key") and (toleration.get("value") or "") == (taint.get("value") or ""):
            return True
    return False


def _required(spec: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The pod's required node affinity."""
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    found: Mapping[str, Any] | None = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return found


def named_nodes(spec: Mapping[str, Any]) -> set[str] | None:
    """The nodes that the affinity names, where each of its terms names some; None when others may do as well."""
    names: set[str] = set()
    terms: Sequence[Mapping[str, Any]] = (_required(spec) or {}).get("nodeSelectorTerms") or ({},)
    for term in terms:
        fields = [e for e in term.get("matchFields") or () if e["operator"] == "In" and e["key"] == "metadata.name"]
        if not fields:
            return None
        names |= set.intersection(*(set(expression["values"]) for expression in fields))
    return names


def conflicting(spec: Mapping[str, Any]) -> str | None:
    """What is said of an affinity that names nodes which no node can be."""
    return "pod affinity terms conflict" if named_nodes(spec) == set() else None


def matches_node(spec: Mapping[str, Any], name: str, labels: Mapping[str, str]) -> bool:
    """nodeSelector and required node affinity; both have to hold."""
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    affinity = _required(spec)
    return affinity is None or matches_selector(affinity, name, labels)


def matches_selector(selector: Mapping[str, Any], name: str, labels: Mapping[str, str]) -> bool:
    """A NodeSelector: any of its terms. A term without expressions matches nothing."""
    return any(_term(term, name, labels) for term in selector.get("nodeSelectorTerms") or ())


def _term(term: Mapping[str, Any], name: str, labels: Mapping[str, str]) -> bool:
    by_label, by_field = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not by_label and not by_field:
        return False
    return all(_expression(e, labels) for e in by_label) and all(
        _expression(e, {"metadata.name": name}) for e in by_field
    )


def _expression(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    value = labels.get(expression["key"])
    values: Sequence[str] = expression.get("values") or ()
    match expression["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt" as operator:
            try:
                have, bound = int(value or ""), int(values[0])
            except (ValueError, IndexError):
                return False
            return have > bound if operator == "Gt" else have < bound
        case _:
            return False


def refusals(spec: Mapping[str, Any], requests: Mapping[str, int], node: NodeView) -> list[str]:
    """Why the pod cannot run on the node; empty when it can. The first check that fails speaks, as in kube-scheduler."""
    named = named_nodes(spec)
    if named is not None and node.name not in named:
        return ["node(s) didn't satisfy plugin(s) [NodeAffinity]"]
    tolerations = spec.get("tolerations") or ()
    if node.unschedulable and not tolerates(tolerations, UNSCHEDULABLE):
        return ["node(s) were unschedulable"]
    wanted = spec.get("nodeName")
    if wanted and wanted != node.name:
        return ["node(s) didn't match the requested node name"]
    if any(taint.get("effect") in BLOCKING and not tolerates(tolerations, taint) for taint in node.taints):
        return ["node(s) had untolerated taint(s)"]
    if not matches_node(spec, node.name, node.labels):
        return ["node(s) didn't match Pod's node affinity/selector"]
    if node.ports and any(_clash(one, other) for one in host_ports(spec) for other in node.ports):
        return ["node(s) didn't have free ports for the requested pod ports"]
    reasons = []
    if node.pods + 1 > node.allocatable.get("pods", 0) // 1000:
        reasons.append("Too many pods")
    for name, asked in requests.items():
        if asked and asked > node.allocatable.get(name, 0) - node.requested.get(name, 0):
            reasons.append(f"Insufficient {name}")
    return reasons


def preference(spec: Mapping[str, Any], requests: Mapping[str, int], node: NodeView) -> tuple[float, ...]:
    """Sort key, best first: preferred affinity, few PreferNoSchedule taints, then the emptiest after placement."""
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    weight = sum(
        entry.get("weight", 0)
        for entry in affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        if _term(entry.get("preference") or {}, node.name, node.labels)
    )
    tolerations = spec.get("tolerations") or ()
    shunned = sum(t.get("effect") == "PreferNoSchedule" and not tolerates(tolerations, t) for t in node.taints)
    used = 0.0
    for name in ("cpu", "memory"):
        capacity = node.allocatable.get(name, 0)
        if capacity:
            used += (node.requested.get(name, 0) + requests.get(name, 0)) / capacity
    return (-float(weight), float(shunned), used, float(node.pods))
