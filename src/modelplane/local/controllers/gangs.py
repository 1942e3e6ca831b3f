"""What a LeaderWorkerSet does next: groups of one leader and its workers that live and die together. Pure.

Names, labels, variables and the restart rule are those of the LeaderWorkerSet project (leaderworkerset.x-k8s.io/v1). Subgroups,
partitions and gang scheduling are not here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from modelplane.api.meta import Object
from modelplane.local import clock
from modelplane.local.controllers import pods as podlib
from modelplane.local.controllers.owners import controlled, controller_of

PREFIX: Final = "leaderworkerset.sigs.k8s.io/"
NAME: Final = PREFIX + "name"
GROUP: Final = PREFIX + "group-index"
WORKER: Final = PREFIX + "worker-index"
KEY: Final = PREFIX + "group-key"
REVISION: Final = PREFIX + "template-revision-hash"
SIZE: Final = PREFIX + "size"
LEADER: Final = PREFIX + "leader-name"


@dataclass(slots=True)
class Step:
    """Pods to make and to delete now, and the status that is true before that."""

    create: list[Object] = field(default_factory=list)
    delete: list[Object] = field(default_factory=list)
    status: Object = field(default_factory=dict)


@dataclass(slots=True)
class _Group:
    index: int
    members: dict[int, Object]

    @property
    def leader(self) -> Object | None:
        return self.members.get(0)

    def ready(self, size: int) -> bool:
        return len(self.members) == size and all(
            podlib.is_ready(p) and podlib.is_active(p) for p in self.members.values()
        )

    @property
    def leaving(self) -> bool:
        return any(p["metadata"].get("deletionTimestamp") for p in self.members.values())

    @property
    def broken(self) -> bool:
        """A member has ended or was restarted."""
        return any(
            podlib.phase(p) in ("Succeeded", "Failed")
            or any(s.get("restartCount") for s in (p.get("status") or {}).get("containerStatuses") or ())
            for p in self.members.values()
        )


def revision(lws: Object) -> str:
    """A hash of the templates; groups of another revision are replaced."""
    return podlib.digest(lws["spec"]["leaderWorkerTemplate"])


def size_of(lws: Object) -> int:
    return int(lws["spec"]["leaderWorkerTemplate"].get("size", 1))


def decide(lws: Object, pods: Sequence[Object]) -> Step:
    """`pods` are all that carry the set's name label in its namespace."""
    spec, size = lws["spec"], size_of(lws)
    wanted = int(spec.get("replicas", 1))
    groups: dict[int, _Group] = {index: _Group(index, {}) for index in range(wanted)}
    for pod in pods:
        labels = pod["metadata"].get("labels") or {}
        group = groups.setdefault(int(labels[GROUP]), _Group(int(labels[GROUP]), {}))
        group.members[int(labels[WORKER])] = pod
    step = Step()
    current = revision(lws)
    for group in groups.values():
        if group.index >= wanted:
            step.delete += _alive(group)
        else:
            _tend(step, lws, group, size)
    outdated = [g for g in groups.values() if g.index < wanted and g.leader is not None and _revision_of(g) != current]
    unavailable = sum(not groups[index].ready(size) for index in range(wanted))
    budget = _budget(spec, wanted) - unavailable
    for group in sorted(outdated, key=lambda g: (g.ready(size), -g.index)):
        if group.leaving:
            continue
        if group.ready(size):
            if budget <= 0:
                break
            budget -= 1
        step.delete += [p for p in _alive(group) if p not in step.delete]
    going = {p["metadata"]["labels"][KEY] for p in step.delete}
    step.create = [p for p in step.create if p["metadata"]["labels"][KEY] not in going]
    step.status = _status(lws, groups, wanted, size, current)
    return step


def _tend(step: Step, lws: Object, group: _Group, size: int) -> None:
    """Bring one group to what it should be."""
    if group.leaving:
        leader = group.leader
        if leader is None or leader["metadata"].get("deletionTimestamp") or _restarts_together(lws):
            step.delete += _alive(group)
        return
    leader = group.leader
    if leader is None:
        if group.members:
            step.delete += _alive(group)
        else:
            step.create.append(member(lws, group.index, 0, None))
        return
    if group.broken and _restarts_together(lws):
        step.delete += _alive(group)
        return
    if lws["spec"].get("startupPolicy") == "LeaderReady" and not podlib.is_ready(leader):
        return
    for index in range(1, size):
        worker = group.members.get(index)
        if worker is None:
            step.create.append(member(lws, group.index, index, leader))
        elif (controller_of(worker) or {}).get("uid") != leader["metadata"]["uid"]:
            step.delete.append(worker)
    step.delete += [p for index, p in group.members.items() if index >= size and podlib.is_active(p)]


def _alive(group: _Group) -> list[Object]:
    return [p for p in group.members.values() if not p["metadata"].get("deletionTimestamp")]


def _restarts_together(lws: Object) -> bool:
    policy: str = lws["spec"]["leaderWorkerTemplate"].get("restartPolicy", "RecreateGroupOnPodRestart")
    return policy != "None"


def _revision_of(group: _Group) -> str:
    assert group.leader is not None
    return str((group.leader["metadata"].get("labels") or {}).get(REVISION))


def _budget(spec: Mapping[str, Any], wanted: int) -> int:
    rolling = (spec.get("rolloutStrategy") or {}).get("rollingUpdateConfiguration") or {}
    value = rolling.get("maxUnavailable", 1)
    if isinstance(value, str) and value.endswith("%"):
        return max(1, wanted * int(value[:-1]) // 100)
    return max(1, int(value))


def member(lws: Object, group: int, index: int, leader: Object | None) -> Object:
    """The pod of a place in a group. A worker is owned by its leader, so that it goes with it."""
    metadata, templates = lws["metadata"], lws["spec"]["leaderWorkerTemplate"]
    template = (
        templates["workerTemplate"] if index or "leaderTemplate" not in templates else templates["leaderTemplate"]
    )
    name, namespace, size = metadata["name"], metadata["namespace"], size_of(lws)
    leader_name = f"{name}-{group}"
    own = template.get("metadata") or {}
    variables = [
        {"name": "LWS_LEADER_ADDRESS", "value": f"{leader_name}.{name}.{namespace}"},
        {"name": "LWS_GROUP_SIZE", "value": str(size)},
        {"name": "LWS_WORKER_INDEX", "value": str(index)},
    ]
    spec = dict(template["spec"])
    for field_name in ("containers", "initContainers"):
        if spec.get(field_name):
            # First, since what the user wrote may refer to them.
            spec[field_name] = [{**c, "env": [*variables, *(c.get("env") or ())]} for c in spec[field_name]]
    pod_name = leader_name if index == 0 else f"{leader_name}-{index}"
    spec |= {"hostname": pod_name, "subdomain": name}
    labels = {
        **(own.get("labels") or {}),
        NAME: name,
        GROUP: str(group),
        WORKER: str(index),
        KEY: podlib.digest([namespace, leader_name], 20),
        REVISION: revision(lws),
    }
    annotations = {**(own.get("annotations") or {}), SIZE: str(size), **({LEADER: leader_name} if index else {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod_name,
            "namespace": namespace,
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": controlled(lws if leader is None else {"apiVersion": "v1", "kind": "Pod", **leader}),
        },
        "spec": spec,
    }


def service(lws: Object) -> Object:
    """The headless Service that gives members their names."""
    metadata = lws["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": metadata["name"], "namespace": metadata["namespace"], "ownerReferences": controlled(lws)},
        "spec": {"clusterIP": "None", "selector": {NAME: metadata["name"]}, "publishNotReadyAddresses": True},
    }


def _status(lws: Object, groups: Mapping[int, _Group], wanted: int, size: int, current: str) -> Object:
    there = [g for g in groups.values() if g.leader is not None]
    ready = sum(g.ready(size) for g in there if g.index < wanted)
    updated = sum(_revision_of(g) == current for g in there)
    conditions = {c["type"]: c for c in (lws.get("status") or {}).get("conditions") or ()}
    done = ready == wanted and updated >= wanted and len(there) == wanted
    for type_, holds, reason, message in (
        ("Available", done, "AllGroupsReady", "All replicas are ready"),
        ("Progressing", not done, "GroupsProgressing", "Replicas are progressing"),
    ):
        status = "True" if holds else "False"
        if conditions.get(type_, {}).get("status") != status:
            moment = clock.stamp()
            conditions[type_] = {
                "type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": moment,
            }  # fmt: skip
    return {
        "replicas": len(there),
        "readyReplicas": ready,
        "updatedReplicas": updated,
        "hpaPodSelector": f"{NAME}={lws['metadata']['name']},{WORKER}=0",
        "conditions": list(conditions.values()),
    }
