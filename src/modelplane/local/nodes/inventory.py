"""Nodes, ResourceSlices and DeviceClasses of a cluster, as its fleet description publishes them. Pure."""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from modelplane import __version__
from modelplane.api.meta import Object
from modelplane.local import clock
from modelplane.local.fleet_spec import Cluster, Device, Pool

POOL_LABEL: Final = "modelplane.ai/pool"
OWNED_LABEL: Final = "modelplane.ai/simulated"
LEASES: Final = "kube-node-lease"
LEASE_SECONDS: Final = 40
ARCH: Final = {"x86_64": "amd64", "aarch64": "arm64", "AMD64": "amd64"}.get(platform.machine(), platform.machine())


@dataclass(frozen=True, slots=True)
class NodePlan:
    """One node and the slices of its devices, one per driver. The kubelet's version is not in it: it is the server's."""

    name: str
    node: Object
    slices: tuple[Object, ...]


def plan(cluster: Cluster, *, log_port: int) -> list[NodePlan]:
    """Every node of the cluster. A node's name is its pool's with a number."""
    return [_node(pool, number, log_port) for pool in cluster.pools for number in range(pool.nodes)]


def classes(cluster: Cluster) -> list[Object]:
    """A DeviceClass for each class that the fleet's devices name."""
    found: dict[str, set[str]] = {}
    for pool in cluster.pools:
        for device in pool.devices:
            found.setdefault(device.device_class, set()).add(device.driver)
    return [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": name, "labels": {OWNED_LABEL: "true"}},
            "spec": {"selectors": [{"cel": {"expression": _drivers(drivers)}}]},
        }
        for name, drivers in sorted(found.items())
    ]


def _drivers(drivers: set[str]) -> str:
    return " || ".join(f'device.driver == "{driver}"' for driver in sorted(drivers))


def _node(pool: Pool, number: int, log_port: int) -> NodePlan:
    name = f"{pool.name}-{number}"
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": ARCH,
        OWNED_LABEL: "true",
        POOL_LABEL: pool.name,
        **pool.labels,
    }
    capacity = {"cpu": pool.cpu, "memory": pool.memory, "pods": str(pool.pods), "ephemeral-storage": "100Gi"}
    taints = [{"key": t.key, "effect": t.effect, **({"value": t.value} if t.value else {})} for t in pool.taints]
    node: Object = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"providerID": f"modelplane://{name}", **({"taints": taints} if taints else {})},
        "status": {
            "capacity": capacity,
            "allocatable": capacity,
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}, {"type": "Hostname", "address": name}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": log_port}},
            "nodeInfo": {
                "architecture": ARCH,
                "bootID": "",
                "containerRuntimeVersion": f"mock://{__version__}",
                "kernelVersion": platform.release(),
                "kubeProxyVersion": "",
                "machineID": name,
                "operatingSystem": "linux",
                "osImage": "a simulated node of Modelplane",
                "systemUUID": name,
            },
        },
    }
    drivers: dict[str, list[Device]] = {}
    for device in pool.devices:
        drivers.setdefault(device.driver, []).append(device)
    return NodePlan(name, node, tuple(_slice(name, driver, kinds) for driver, kinds in sorted(drivers.items())))


def _slice(node: str, driver: str, kinds: list[Device]) -> Object:
    prefix = re.sub(r"[^a-z0-9-]", "-", driver.partition(".")[0].lower()).strip("-") or "device"
    devices: list[Object] = []
    for kind in kinds:
        described = {
            "attributes": {key: _attribute(value) for key, value in kind.attributes.items()},
            "capacity": {key: {"value": value} for key, value in kind.capacity.items()},
        }
        for _ in range(kind.count):
            filled = {key: value for key, value in described.items() if value}
            devices.append({"name": f"{prefix}-{len(devices)}", **filled})
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-{driver}", "labels": {OWNED_LABEL: "true"}},
        "spec": {
            "driver": driver,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": devices,
        },
    }


def _attribute(value: Any) -> Object:
    for name, found in (
        ("string", value.string),
        ("version", value.version),
        ("bool", value.boolean),
        ("int", value.integer),
    ):
        if found is not None:
            return {name: found}
    raise AssertionError("the fleet file allows no empty attribute")


def conditions(before: Mapping[str, Any]) -> list[Object]:
    """The node's conditions, all well, keeping the times of those that were so already."""
    known = {c["type"]: c for c in before.get("conditions") or ()}
    moment = clock.stamp()
    made = []
    for type_, status, reason, message in (
        ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ("Ready", "True", "KubeletReady", "the simulated node is ready"),
    ):
        old = known.get(type_, {})
        changed = moment if old.get("status") != status else old.get("lastTransitionTime") or moment
        made.append(
            {
                "type": type_,
                "status": status,
                "reason": reason,
                "message": message,
                "lastHeartbeatTime": moment,
                "lastTransitionTime": changed,
            }
        )
    return made
