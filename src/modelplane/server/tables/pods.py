"""The pod table: its status column is a small decision of its own."""

from __future__ import annotations

from datetime import datetime

from modelplane.api.meta import Object
from modelplane.server.columns import age, moment
from modelplane.server.tables.cells import NONE, Table, column, spec, status, table, timed, wide


def _containers(pod: Object) -> list[Object]:
    """Regular containers, and init containers that keep running beside them."""
    sidecars = [c for c in spec(pod).get("initContainers") or () if c.get("restartPolicy") == "Always"]
    return [*sidecars, *(spec(pod).get("containers") or ())]


def _statuses(pod: Object) -> list[Object]:
    return [*(status(pod).get("initContainerStatuses") or ()), *(status(pod).get("containerStatuses") or ())]


def _ready(pod: Object) -> str:
    wanted = {container.get("name") for container in _containers(pod)}
    ready = sum(
        1 for s in _statuses(pod) if s.get("name") in wanted and s.get("ready") and "running" in (s.get("state") or {})
    )
    return f"{ready}/{len(wanted)}"


def pod_reason(pod: Object) -> str:
    """The STATUS column: the phase, or what is more telling (CrashLoopBackOff, Init:0/1, Completed, Terminating)."""
    state = status(pod)
    reason = state.get("reason") or state.get("phase") or "Unknown"
    for condition in state.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            reason = "SchedulingGated"
    initializing = _init_reason(pod)
    if initializing:
        reason = initializing
    else:
        reason = _container_reason(pod, reason)
    if (pod.get("metadata") or {}).get("deletionTimestamp"):
        return "Unknown" if state.get("reason") == "NodeLost" else "Terminating"
    return str(reason)


def _init_reason(pod: Object) -> str:
    inits = spec(pod).get("initContainers") or []
    sidecars = {c.get("name") for c in inits if c.get("restartPolicy") == "Always"}
    for position, container in enumerate(status(pod).get("initContainerStatuses") or ()):
        state = container.get("state") or {}
        terminated = state.get("terminated")
        if terminated is not None and terminated.get("exitCode", 0) == 0:
            continue
        if container.get("name") in sidecars and container.get("started"):
            continue
        if terminated is not None:
            return f"Init:{_ended(terminated)}"
        waiting = (state.get("waiting") or {}).get("reason")
        if waiting and waiting != "PodInitializing":
            return f"Init:{waiting}"
        return f"Init:{position}/{len(inits)}"
    return ""


def _ended(terminated: Object) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    return f"Signal:{terminated['signal']}" if terminated.get("signal") else f"ExitCode:{terminated.get('exitCode', 0)}"


def _container_reason(pod: Object, reason: str) -> str:
    running = False
    for container in reversed(status(pod).get("containerStatuses") or []):
        state = container.get("state") or {}
        if (state.get("waiting") or {}).get("reason"):
            reason = state["waiting"]["reason"]
        elif state.get("terminated") is not None:
            reason = _ended(state["terminated"])
        elif container.get("ready") and "running" in state:
            running = True
    if reason == "Completed" and running:
        conditions = status(pod).get("conditions") or ()
        ready = any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)
        return "Running" if ready else "NotReady"
    return reason


def _restarts(pod: Object, now: datetime) -> str:
    count = sum(container.get("restartCount") or 0 for container in _statuses(pod))
    ends = [((c.get("lastState") or {}).get("terminated") or {}).get("finishedAt") for c in _statuses(pod)]
    latest = max((str(end) for end in ends if moment(end) is not None), default=None)
    return f"{count} ({age(latest, now)} ago)" if count and latest else str(count)


def _gates(pod: Object) -> str:
    gates = spec(pod).get("readinessGates") or ()
    if not gates:
        return NONE
    conditions = {c.get("type"): c.get("status") for c in status(pod).get("conditions") or ()}
    met = sum(conditions.get(gate.get("conditionType")) == "True" for gate in gates)
    return f"{met}/{len(gates)}"


TABLES: dict[tuple[str, str], Table] = {
    ("", "Pod"): table(
        column("Ready", _ready),
        column("Status", pod_reason),
        timed("Restarts", _restarts),
        wide=(
            wide("IP", lambda pod: status(pod).get("podIP") or NONE),
            wide("Node", lambda pod: spec(pod).get("nodeName") or NONE),
            wide("Nominated Node", lambda pod: status(pod).get("nominatedNodeName") or NONE),
            wide("Readiness Gates", _gates),
        ),
    ),
}
