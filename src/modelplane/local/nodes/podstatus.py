"""A pod's status from what its node knows of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from modelplane.api.meta import Object
from modelplane.local import clock
from modelplane.local.nodes.records import Ended

IMAGE_ID: Final = "modelplane.ai/mock-engine"


class Stage(StrEnum):
    """How far a container is."""

    WAITING = "waiting"
    RUNNING = "running"
    TERMINATED = "terminated"


@dataclass(frozen=True, slots=True)
class ContainerState:
    """One container, as its node sees it."""

    stage: Stage
    reason: str = ""
    message: str = ""
    since: str = ""
    exit_code: int = 0
    finished: str = ""
    started: bool = False
    ready: bool = False
    restarts: int = 0
    last: Ended | None = None


def _state(found: ContainerState) -> Object:
    if found.stage is Stage.RUNNING:
        return {"running": {"startedAt": found.since}}
    if found.stage is Stage.TERMINATED:
        body = {"exitCode": found.exit_code, "reason": found.reason, "finishedAt": found.finished or clock.stamp()}
        return {"terminated": {**body, "startedAt": found.since or body["finishedAt"]}}
    return {"waiting": {"reason": found.reason, **({"message": found.message} if found.message else {})}}


def container_status(container: Mapping[str, Any], found: ContainerState, uid: str) -> Object:
    status: Object = {
        "name": container["name"],
        "image": container.get("image", ""),
        "imageID": "" if found.stage is Stage.WAITING and not found.restarts else IMAGE_ID,
        "containerID": f"mock://{uid}/{container['name']}/{found.restarts}" if found.stage is not Stage.WAITING else "",
        "state": _state(found),
        "lastState": {},
        "ready": found.ready,
        "started": found.started,
        "restartCount": found.restarts,
    }
    if found.last is not None:
        ended: Object = {
            "exitCode": found.last.exit_code,
            "reason": found.last.reason,
            "startedAt": found.last.started,
            "finishedAt": found.last.finished,
        }
        if found.last.message:
            ended["message"] = found.last.message
        status["lastState"] = {"terminated": ended}
    return status


def phase(pod: Object, states: Sequence[ContainerState]) -> str:
    """Pending, Running, Succeeded or Failed, as the kubelet reckons it."""
    policy = pod["spec"].get("restartPolicy", "Always")
    if any(s.stage is Stage.WAITING and not s.restarts and s.last is None for s in states):
        return "Pending"
    if states and all(s.stage is Stage.TERMINATED for s in states) and policy != "Always":
        failed = any(s.exit_code for s in states)
        if not failed:
            return "Succeeded"
        if policy == "Never":
            return "Failed"
    return "Running"


def compose(pod: Object, states: Mapping[str, ContainerState], *, ip: str, host_ip: str, started: str) -> Object:
    """The parts of the status that the node writes. Conditions of others (PodScheduled) are left alone."""
    spec = pod["spec"]
    containers = spec.get("containers") or ()
    ordered = [states[c["name"]] for c in containers]
    now_phase = phase(pod, ordered)
    unready = [c["name"] for c, s in zip(containers, ordered, strict=True) if not s.ready]
    done = now_phase == "Succeeded"
    fine = not unready and now_phase == "Running"
    reason = "" if fine else "PodCompleted" if done else "ContainersNotReady"
    message = "" if fine or done else f"containers with unready status: [{' '.join(unready)}]"
    gates = [g["conditionType"] for g in spec.get("readinessGates") or ()]
    before = {c["type"]: c for c in (pod.get("status") or {}).get("conditions") or ()}
    gated = [g for g in gates if before.get(g, {}).get("status") != "True"]
    conditions = [
        _condition(before, "PodReadyToStartContainers", bool(ip), "", ""),
        _condition(before, "Initialized", True, "PodCompleted" if done else "", ""),
        _condition(before, "ContainersReady", fine, reason, message),
        _condition(
            before,
            "Ready",
            fine and not gated,
            "ReadinessGatesNotReady" if fine and gated else reason,
            f"corresponding conditions of pod readiness gates {gated} are not True" if fine and gated else message,
        ),
    ]
    generation = pod["metadata"].get("generation")
    if generation:
        for condition in conditions:
            condition["observedGeneration"] = generation
    uid = pod["metadata"]["uid"]
    completed = ContainerState(Stage.TERMINATED, "Completed", since=started, finished=started, ready=True)
    init = [container_status(c, completed, uid) for c in spec.get("initContainers") or ()]
    status: Object = {
        "phase": now_phase,
        "conditions": conditions,
        "hostIP": host_ip,
        "hostIPs": [{"ip": host_ip}],
        "startTime": started,
        "qosClass": (pod.get("status") or {}).get("qosClass") or _quality(spec),
        "containerStatuses": [container_status(c, s, uid) for c, s in zip(containers, ordered, strict=True)],
    }
    if generation:
        status["observedGeneration"] = generation
    if init:
        status["initContainerStatuses"] = init
    if ip:
        status |= {"podIP": ip, "podIPs": [{"ip": ip}]}
    return status


def _condition(before: Mapping[str, Any], type_: str, holds: bool, reason: str, message: str) -> Object:
    status = "True" if holds else "False"
    known = before.get(type_) or {}
    changed = known.get("lastTransitionTime") if known.get("status") == status else None
    condition: Object = {
        "type": type_,
        "status": status,
        "lastProbeTime": None,
        "lastTransitionTime": changed or clock.stamp(),
    }
    # Empty words are written, not left out: the status is merged, and an old reason has to go.
    condition["reason"] = reason or None
    condition["message"] = message or None
    return condition


def _quality(spec: Mapping[str, Any]) -> str:
    """Guaranteed, Burstable or BestEffort."""
    guaranteed, anything = True, False
    for container in spec.get("containers") or ():
        resources = container.get("resources") or {}
        requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
        for name in ("cpu", "memory"):
            anything = anything or name in requests or name in limits
            guaranteed = guaranteed and name in limits and requests.get(name, limits.get(name)) == limits.get(name)
    return "Guaranteed" if guaranteed and anything else "Burstable" if anything else "BestEffort"
