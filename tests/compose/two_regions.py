"""The five manifests of the two-regions example on two clusters that do what they are told."""

from __future__ import annotations

import copy
from functools import cache
from pathlib import Path

import yaml

from tests.compose.fleet import Fleet
from tests.compose.objects import device_class, kubeconfig, node, resource_slice
from tests.compose.planner import planner

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "two-regions"
CLUSTERS = {"gpu-eu-west": "eu-west-kubeconfig", "gpu-us-east": "us-east-kubeconfig"}
ADDRESSES = {None: "10.244.163.152", "gpu-eu-west": "10.244.174.6", "gpu-us-east": "10.244.24.149"}
"""Those of the reference, so that what is made of them can be compared."""


def applied() -> Fleet:
    """The manifests as their authors wrote them, before anything looked at them."""
    fleet = Fleet(*CLUSTERS, place=planner, addresses=ADDRESSES)
    for cluster, secret in CLUSTERS.items():
        body = kubeconfig()
        body["metadata"]["name"] = secret
        fleet.apply(body)
        for obj in (node(cluster), resource_slice(), device_class()):
            fleet.apply(obj, cluster)
    for path in sorted(EXAMPLE.glob("*.yaml")):
        for obj in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            fleet.apply(obj)
    return fleet


def settled() -> Fleet:
    """A copy of one's own: settling takes longer than copying."""
    return copy.deepcopy(_settled())


@cache
def _settled() -> Fleet:
    fleet = applied()
    fleet.settle()
    return fleet
