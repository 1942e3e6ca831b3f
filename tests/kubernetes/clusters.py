"""Small random clusters for the scheduler comparison: what a seed makes is always the same.

Every object of a cluster is marked by its seed, in name, label, namespace or driver, so that many clusters live on one API server
without one seeing another. Sizes are small on purpose: what matters is that nearly every pod meets a node that is nearly full, a
taint, a device that is taken, a pool that is half published, or a selector that cannot be evaluated.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from modelplane.api.meta import Object
from tests.kubernetes.claims import Kit, claim

LABEL: Final = "case"
TAINTS: Final = ("dedicated", "gpu")


@dataclass(frozen=True)
class Arrival:
    """A pod that comes when all before it have a verdict, and claims that are made just before it."""

    pod: Object
    claims: Sequence[Object]


@dataclass(frozen=True)
class Cluster:
    seed: int
    nodes: Sequence[Object]
    classes: Sequence[Object]
    slices: Sequence[Object]
    arrivals: Sequence[Arrival]

    @property
    def name(self) -> str:
        """Namespace, prefix of names, value of the label."""
        return named(self.seed)


def named(seed: int) -> str:
    return f"case-{seed}"


def cluster(seed: int) -> Cluster:
    """The cluster of a seed."""
    draw = random.Random(f"scheduler/{seed}")
    name = named(seed)
    kit = Kit(f"gpu.{name}.example.com", f"nic.{name}.example.com")
    nodes = [_node(draw, name, number) for number in range(draw.choice((2, 2, 3, 4, 5)))]
    classes = kit.classes(draw)
    slices = [piece for node in nodes for piece in _local(draw, kit, node)]
    if draw.random() < 0.35:
        slices += _shared(draw, kit, name, nodes)
    known: list[str] = []
    arrivals = []
    for number in range(draw.randint(3, 7)):
        claims = []
        for _ in range(draw.choice((0, 0, 1, 1, 1, 2)) if slices else draw.choice((0, 0, 0, 1))):
            claims.append(claim(draw, kit, name, f"{name}-claim-{len(known) + len(claims)}"))
        used = [each["metadata"]["name"] for each in claims]
        if known and draw.random() < 0.15:
            used.append(draw.choice(known))
        known += [each["metadata"]["name"] for each in claims]
        arrivals.append(Arrival(_pod(draw, name, number, [n["metadata"]["name"] for n in nodes], used), claims))
    return Cluster(seed, nodes, classes, slices, arrivals)


# --- nodes -----------------------------------------------------------------------------------------------------------


def _node(draw: random.Random, name: str, number: int) -> Object:
    labels = {LABEL: name}
    if draw.random() < 0.8:
        labels["zone"] = draw.choice("abc")
    if draw.random() < 0.7:
        labels["size"] = draw.choice(("1", "2", "10", "big"))
    spec: Object = {}
    if draw.random() < 0.2:
        spec["taints"] = [_taint(draw, key) for key in draw.sample(TAINTS, draw.choice((1, 1, 2)))]
    if draw.random() < 0.04:
        spec["unschedulable"] = True
    room: dict[str, str] = {
        "cpu": draw.choice(("1500m", "3", "6")),
        "memory": draw.choice(("2Gi", "6Gi", "5000M")),
        "pods": draw.choice(("2", "3", "110", "110", "110")),
    }
    if draw.random() < 0.3:
        room["example.com/fpga"] = draw.choice("123")
    if draw.random() < 0.03:
        del room[draw.choice(list(room))]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"{name}-n{number}", "labels": labels},
        "spec": spec,
        "status": {"capacity": room, "allocatable": room},
    }


def _taint(draw: random.Random, key: str) -> Object:
    value = {"value": draw.choice(("yes", "no"))} if draw.random() < 0.7 else {}
    return {"key": key, **value, "effect": draw.choice(("NoSchedule", "NoSchedule", "NoExecute", "PreferNoSchedule"))}


# --- slices ----------------------------------------------------------------------------------------------------------


def _slice(name: str, driver: str, pool: Object, devices: Sequence[Object], **reach: Any) -> Object:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": {"driver": driver, "pool": pool, "devices": list(devices), **reach},
    }


def _local(draw: random.Random, kit: Kit, node: Object) -> list[Object]:
    """Pools of one node: whole, in two slices, half published, beside an older generation, or with a name twice."""
    name = node["metadata"]["name"]
    slices: list[Object] = []
    for driver in (kit.gpu, kit.nic):
        if draw.random() < (0.15 if driver == kit.gpu else 0.6):
            continue
        devices = kit.devices(draw, driver, draw.choice((2, 2, 3, 4, 5)))
        stem = f"{name}-{driver}"

        def pool(count: int, generation: int = 2, name: str = name) -> Object:
            return {"name": name, "generation": generation, "resourceSliceCount": count}

        how = draw.random()
        if how < 0.68 or len(devices) < 2:
            slices.append(_slice(f"{stem}-a", driver, pool(1), devices, nodeName=name))
        elif how < 0.82:
            slices.append(_slice(f"{stem}-b", driver, pool(2), devices[:1], nodeName=name))
            slices.append(_slice(f"{stem}-a", driver, pool(2), devices[1:], nodeName=name))
        elif how < 0.87:
            slices.append(_slice(f"{stem}-a", driver, pool(2), devices, nodeName=name))
        elif how < 0.96:
            slices.append(_slice(f"{stem}-z", driver, pool(1, 1), kit.devices(draw, driver, 3), nodeName=name))
            slices.append(_slice(f"{stem}-a", driver, pool(1), devices, nodeName=name))
        else:
            slices.append(_slice(f"{stem}-a", driver, pool(2), devices, nodeName=name))
            slices.append(_slice(f"{stem}-b", driver, pool(2), devices[:1], nodeName=name))
    return slices


def _shared(draw: random.Random, kit: Kit, name: str, nodes: Sequence[Object]) -> list[Object]:
    """A pool that several nodes reach: by a selector, or device by device."""
    driver = draw.choice((kit.gpu, kit.nic))
    devices = kit.devices(draw, driver, draw.choice((1, 2, 3)), prefix="far")
    pool = {"name": draw.choice(("a-fabric", "z-fabric")), "generation": 1, "resourceSliceCount": 1}
    if draw.random() < 0.5:
        return [_slice(f"{name}-fabric", driver, pool, devices, nodeSelector=_reach(draw, name))]
    reached = []
    for device in devices:
        if draw.random() < 0.5:
            reached.append({**device, "nodeName": draw.choice(nodes)["metadata"]["name"]})
        else:
            reached.append({**device, "nodeSelector": _reach(draw, name)})
    return [_slice(f"{name}-fabric", driver, pool, reached, perDeviceNodeSelection=True)]


def _reach(draw: random.Random, name: str) -> Object:
    expressions = [{"key": LABEL, "operator": "In", "values": [name]}]
    if draw.random() < 0.5:
        expressions.append({"key": "zone", "operator": "In", "values": draw.sample("abc", 2)})
    return {"nodeSelectorTerms": [{"matchExpressions": expressions}]}


# --- pods ------------------------------------------------------------------------------------------------------------


def _pod(draw: random.Random, name: str, number: int, nodes: Sequence[str], claims: Sequence[str]) -> Object:
    spec: Object = {
        "nodeSelector": {LABEL: name},
        "terminationGracePeriodSeconds": 0,
        "containers": [_container(draw, "engine", 0.8)],
    }
    if draw.random() < 0.2:
        spec["containers"].append(_container(draw, "beside", 0.8))
    if draw.random() < 0.2:
        spec["initContainers"] = [_container(draw, "before", 1.0)]
        if draw.random() < 0.5:
            spec["initContainers"].insert(0, {**_container(draw, "side", 1.0), "restartPolicy": "Always"})
    if draw.random() < 0.1:
        # What the pod asks as a whole may not be less than what its containers ask.
        spec["containers"] = [{"name": "engine", "image": "none", "resources": {"requests": {"cpu": "100m"}}}]
        spec["resources"] = {"requests": {"cpu": draw.choice(("500m", "1", "2"))}}
        spec.pop("initContainers", None)
    if draw.random() < 0.25:
        port: Object = {
            "containerPort": 80,
            "hostPort": draw.choice((80, 80, 81)),
            "protocol": draw.choice(("TCP", "TCP", "UDP")),
        }
        if draw.random() < 0.4:
            port["hostIP"] = draw.choice(("10.0.0.1", "10.0.0.2", "0.0.0.0"))
        spec["containers"][0]["ports"] = [port]
    if draw.random() < 0.08:
        spec["nodeSelector"]["zone"] = draw.choice("abc")
    if draw.random() < 0.2:
        spec["affinity"] = {"nodeAffinity": _affinity(draw, nodes)}
    if draw.random() < 0.45:
        spec["tolerations"] = [_toleration(draw) for _ in range(draw.choice((1, 1, 2)))]
    if claims:
        spec["resourceClaims"] = [{"name": f"c{i}", "resourceClaimName": each} for i, each in enumerate(claims)]
        spec["containers"][0].setdefault("resources", {})["claims"] = [{"name": f"c{i}"} for i in range(len(claims))]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"{name}-p{number}", "namespace": name},
        "spec": spec,
    }


def _container(draw: random.Random, name: str, asks: float) -> Object:
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}
    if draw.random() < asks:
        requests["cpu"] = draw.choice(("100m", "500m", "500m", "1", "2"))
        if draw.random() < 0.6:
            requests["memory"] = draw.choice(("64Mi", "512Mi", "512Mi", "1G", "2Gi"))
    elif draw.random() < 0.5:
        limits["cpu"] = draw.choice(("200m", "1"))
    if draw.random() < 0.04:
        limits["example.com/fpga"] = draw.choice("12")
    resources = {key: value for key, value in (("requests", requests), ("limits", limits)) if value}
    return {"name": name, "image": "none", **({"resources": resources} if resources else {})}


def _affinity(draw: random.Random, nodes: Sequence[str]) -> Object:
    terms = []
    for _ in range(draw.choice((1, 1, 2))):
        if draw.random() < 0.2:
            values = [draw.choice(nodes)]
            field = {"key": "metadata.name", "operator": draw.choice(("In", "NotIn")), "values": values}
            terms.append({"matchFields": [field]})
            continue
        terms.append({"matchExpressions": [_expression(draw) for _ in range(draw.choice((1, 1, 2)))]})
    found: Object = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    if draw.random() < 0.3:
        preferred = [{"weight": 50, "preference": {"matchExpressions": [_expression(draw)]}}]
        found["preferredDuringSchedulingIgnoredDuringExecution"] = preferred
    return found


def _expression(draw: random.Random) -> Object:
    operator = draw.choice(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
    if operator in ("Gt", "Lt"):
        return {"key": "size", "operator": operator, "values": [draw.choice(("1", "2", "9"))]}
    if operator in ("Exists", "DoesNotExist"):
        return {"key": draw.choice(("zone", "size")), "operator": operator}
    return {"key": "zone", "operator": operator, "values": draw.sample("abc", draw.choice((1, 2)))}


def _toleration(draw: random.Random) -> Object:
    how = draw.random()
    if how < 0.25:
        return {"operator": "Exists"}
    key = draw.choice(TAINTS)
    effect = {"effect": draw.choice(("NoSchedule", "NoExecute"))} if draw.random() < 0.4 else {}
    if how < 0.55:
        return {"key": key, "operator": "Exists", **effect}
    value = {"value": draw.choice(("yes", "no"))} if draw.random() < 0.8 else {}
    return {"key": key, **({"operator": "Equal"} if draw.random() < 0.5 else {}), **value, **effect}
