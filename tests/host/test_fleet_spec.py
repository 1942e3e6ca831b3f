"""A fleet file is read strictly, and what is wrong is named by its path."""

from __future__ import annotations

import re

import pytest

from modelplane.local import fleet_spec

MINIMAL = """
clusters:
- name: a
  secret: {name: a-kubeconfig}
  pools:
  - {name: gpu, devices: [{driver: gpu.example.com, capacity: {memory: 80Gi}}]}
"""


def test_defaults_fill_what_a_short_file_leaves_out() -> None:
    fleet = fleet_spec.parse(MINIMAL)
    pool = fleet.cluster("a").pools[0]
    assert (pool.nodes, pool.devices[0].device_class, fleet.cluster("a").secret.key) == (
        1,
        "gpu.example.com",
        "kubeconfig",
    )


def test_a_fleet_survives_being_written_and_read() -> None:
    assert fleet_spec.parse(fleet_spec.dump(fleet_spec.TWO_REGIONS)) == fleet_spec.TWO_REGIONS


@pytest.mark.parametrize(
    ("text", "names", "reason"),
    [
        (MINIMAL.replace("secret", "sekret"), "sekret", "a misspelt field is named"),
        (
            MINIMAL.replace("name: gpu,", "name: gpu, nodes: -1,"),
            r"clusters\[0\].pools\[0\].nodes",
            "a bound is named by path",
        ),
        (MINIMAL.replace("name: a\n", "name: A_b\n"), "name", "names are DNS labels, since objects are called so"),
        (
            MINIMAL + MINIMAL.replace("clusters:\n", ""),
            "'a' is there twice",
            "two clusters of one name cannot be told apart",
        ),
        ("clusters: [", "line 1", "broken YAML says where"),
        ("clusters: []", "clusters is empty", "a fleet without a cluster can serve nothing"),
        (
            MINIMAL.replace("name: a\n", "name: modelplane\n"),
            "control plane's context",
            "kubectl could not tell the two apart",
        ),
        (
            MINIMAL.replace("name: gpu,", "name: gpu, cpu: lots,"),
            "cpu: 'lots' is not a quantity",
            "no node can have lots",
        ),
        (MINIMAL.replace("80Gi", "huge"), "memory: 'huge' is not a quantity", "nor a device"),
        (MINIMAL.replace("name: gpu,", "name: gpu, labels: {a: b c},"), "labels", "a label's value has no space"),
        (
            MINIMAL.replace("name: gpu,", "name: gpu, taints: [{key: a, effect: Foo}],"),
            r"taints\[0\].effect",
            "an effect is one that a node can have",
        ),
        (
            MINIMAL.replace(
                "driver: gpu.example.com,", "driver: gpu.example.com, attributes: {x: {int: 1, string: y}},"
            ),
            "exactly one of",
            "an attribute with two types has none",
        ),
    ],
)
def test_a_wrong_fleet_is_refused(text: str, names: str, reason: str) -> None:
    with pytest.raises(fleet_spec.FleetError) as refusal:
        fleet_spec.parse(text)
    assert re.search(names, str(refusal.value)), reason
