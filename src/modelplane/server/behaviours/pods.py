"""Pods: pending when they are made, a grace period when they are deleted, and almost nothing that may change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from modelplane.api.meta import Object
from modelplane.server.behaviours.behaviour import Behaviour
from modelplane.server.schema import ErrorType, FieldError
from modelplane.server.store import Store

FORBIDDEN_UPDATE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


@dataclass(frozen=True)
class Pods(Behaviour):
    """The strategy of pods."""

    graceful: bool = True
    status_keeps: tuple[str, ...] = ("ownerReferences",)

    def prepare_create(self, obj: Object, store: Store) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("serviceAccountName", "default")
        spec.setdefault("serviceAccount", spec["serviceAccountName"])
        spec.setdefault("priority", 0)
        spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
        _tolerate_lost_nodes(spec)
        obj["status"] = {"phase": "Pending", "qosClass": _qos_class(spec)}

    def normalize(self, obj: Object) -> None:
        status = obj.get("status") or {}
        if status.get("podIP") and not status.get("podIPs"):
            status["podIPs"] = [{"ip": status["podIP"]}]

    def check(self, new: Object, old: Object | None) -> Sequence[FieldError]:
        if old is None or _fixed(new["spec"]) == _fixed(old["spec"]):
            return ()
        return [FieldError(path="spec", type=ErrorType.FORBIDDEN, message=FORBIDDEN_UPDATE)]

    def grace_seconds(self, obj: Object, asked: int | None) -> int:
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        period = asked
        if period is None:
            period = spec.get("terminationGracePeriodSeconds", 30)
        # Nobody runs it, or it runs no longer: nobody has to be waited for.
        if not spec.get("nodeName") or status.get("phase") in ("Succeeded", "Failed"):
            return 0
        return 1 if period < 0 else period


def _tolerate_lost_nodes(spec: Object) -> None:
    """A pod stays for five minutes on a node that is not heard of, unless it says otherwise."""
    tolerations = list(spec.get("tolerations") or ())
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        if not any(t.get("key") in (key, None, "") and t.get("effect") in ("NoExecute", None, "") for t in tolerations):
            tolerations.append({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300})
    spec["tolerations"] = tolerations


def _fixed(spec: Object) -> Object:
    """The part of a spec that no update may change."""
    kept = {
        key: value
        for key, value in spec.items()
        if key not in ("activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds", "schedulingGates",
                       "ephemeralContainers")
    }  # fmt: skip
    for containers in ("containers", "initContainers"):
        if containers in kept:
            kept[containers] = [{k: v for k, v in c.items() if k != "image"} for c in kept[containers] or ()]
    return kept


def _qos_class(spec: Mapping[str, object]) -> str:
    containers = [
        container
        for key in ("containers", "initContainers")
        for container in _list(spec.get(key))
        if isinstance(container, dict)
    ]
    asked = [container.get("resources") or {} for container in containers]
    if not any(_cpu_memory(r.get("requests")) or _cpu_memory(r.get("limits")) for r in asked):
        return "BestEffort"
    for resources in asked:
        limits = _cpu_memory(resources.get("limits"))
        requests = {**limits, **_cpu_memory(resources.get("requests"))}
        if set(limits) != {"cpu", "memory"} or requests != limits:
            return "Burstable"
    return "Guaranteed"


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _cpu_memory(amounts: object) -> dict[str, object]:
    if not isinstance(amounts, dict):
        return {}
    return {name: amounts[name] for name in ("cpu", "memory") if str(amounts.get(name, "0")) != "0"}
