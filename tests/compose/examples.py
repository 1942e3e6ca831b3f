"""All examples in one fleet: every cluster as if its provider had made it and it had been registered by hand.

Clusters publish the devices of their pools' classes and do what they are told, so every deployment has a place.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import yaml

from modelplane.api.meta import Object
from tests.compose.fleet import Fleet
from tests.compose.objects import NAMESPACE, device_class, kubeconfig, node, resource_slice
from tests.compose.planner import planner

ROOT = Path(__file__).parents[2] / "examples"
LEFT_OUT = ("composed", "clusters/maintenance.yaml")
"""What the control plane writes itself, and a second form of a cluster that is there already."""


def documents(folder: Path = ROOT) -> Iterator[Object]:
    for path in sorted(folder.rglob("*.yaml")):
        if not path.relative_to(folder).as_posix().startswith(LEFT_OUT):
            yield from yaml.safe_load_all(path.read_text(encoding="utf-8"))


def registered(cluster: Object) -> Object:
    """The cluster as somebody would register it who made it elsewhere."""
    made = copy.deepcopy(cluster)
    settings: Object = {"secretRef": {"name": f"{made['metadata']['name']}-kubeconfig", "key": "kubeconfig"}}
    settings["cache"] = {"storageClassName": "shared"}
    made["spec"]["cluster"] = {"source": "Existing", "existing": settings}
    return made


def applied() -> Fleet:
    objects = list(documents())
    devices = {
        obj["metadata"]["name"]: obj["spec"].get("devices", ()) for obj in objects if obj["kind"] == "InferenceClass"
    }
    clusters = [obj for obj in objects if obj["kind"] == "InferenceCluster"]
    names: list[str | None] = [None, *(cluster["metadata"]["name"] for cluster in clusters)]
    addresses = {name: f"10.1.0.{position}" for position, name in enumerate(names, 1)}
    fleet = Fleet(*filter(None, names), place=planner, addresses=addresses)
    for cluster in clusters:
        name = cluster["metadata"]["name"]
        fleet.apply(kubeconfig(name))
        for pool in cluster["spec"]["nodePools"]:
            fleet.apply(node(pool["name"], f"node-{pool['name']}"), name)
            for device in devices[pool["className"]]:
                fleet.apply(resource_slice(device["driver"]), name)
                if device.get("deviceClassName"):
                    fleet.apply(device_class(device["deviceClassName"]), name)
    token = {"name": "hugging-face", "namespace": NAMESPACE}
    fleet.apply({"apiVersion": "v1", "kind": "Secret", "metadata": token, "data": {"HF_TOKEN": "eA=="}})
    for obj in objects:
        fleet.apply(registered(obj) if obj["kind"] == "InferenceCluster" else obj)
    return fleet


@cache
def settled() -> Fleet:
    """To be looked at and not changed."""
    fleet = applied()
    fleet.settle()
    return fleet
