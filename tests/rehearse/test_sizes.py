"""Rehearsing what becomes larger or smaller: deployments in place, pools whose devices are observed, classes under them."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from modelplane.api.meta import Object
from modelplane.cli import main
from modelplane.plan import whatif
from modelplane.plan.scene import Scene
from tests.rehearse.words import GPU, deployment, device, inference_class, inference_cluster, replica

SMALL = deployment("chat", 1)


def copies(obj: Object, number: int) -> Object:
    changed = copy.deepcopy(obj)
    changed["spec"]["template"]["spec"]["engines"][0]["copies"] = number
    return changed


def asked(tmp_path: Path, objects: list[Object], *arguments: str, apply: tuple[Object, ...] = ()) -> tuple[int, Any]:
    """The exit code and the answer as JSON."""
    path, change = tmp_path / "fleet.json", tmp_path / "change.yaml"
    path.write_text(json.dumps(Scene(objects, "2026-11-29T12:00:00Z").document()))
    change.write_text(yaml.safe_dump_all([{k: v for k, v in obj.items() if k != "status"} for obj in apply]))
    more = ("-f", str(change)) if apply else ()
    result = CliRunner().invoke(main, ["plan", *arguments, *more, "--snapshot", str(path), "-o", "json"])
    return result.exit_code, json.loads(result.stdout)


def test_a_deployment_that_grows_where_it_is_fits_and_takes_the_room() -> None:
    fleet = [inference_cluster("east", pools={"default": 3}), SMALL, replica(SMALL, "east")]
    other = deployment("other", 2)
    now = Scene([*fleet, other])
    then = Scene([*fleet[:1], copies(SMALL, 2), replica(SMALL, "east"), other])
    found = whatif.rehearse(now, then)
    assert [(one.deployment, one.after, one.fits) for one in found.fates] == [
        ("ml/chat", 1, True),
        ("ml/other", 1, False),
    ]


def test_a_deployment_that_outgrew_its_room_does_not_fit(tmp_path: Path) -> None:
    fleet = [inference_class("h100"), inference_cluster("east"), SMALL, replica(SMALL, "east")]
    code, found = asked(tmp_path, fleet, apply=(copies(SMALL, 5),))
    assert code == 2
    assert found["changes"] == []
    (fate,) = found["deployments"]
    assert (fate["fits"], fate["reason"], fate["after"]) == (False, "PartiallyScheduled", 1)
    assert "engine main now needs 5 nodes of pool default on east, where 2 fit" in fate["message"]
    assert [one["text"] for one in fate["smallestChange"]["changes"]] == ["add 3 nodes to pool default"]


def observed(*buckets: tuple[int, int], devices: int = 8, **more: Any) -> Object:
    found = inference_cluster(
        "east", devices=[device("gpu", count=devices), {**device("nic"), "claim": "Synthetic"}], **more
    )
    found["status"]["gpuPools"][0]["capacity"] = {
        "source": "Observed",
        "observedTime": "2026-11-29T13:00:00Z",
        "growNodes": 0,
        "nodesByFreeDevices": [{"free": {GPU: free}, "nodes": nodes} for free, nodes in buckets],
    }
    return found


def test_what_is_observed_stays_so_when_the_class_or_the_size_changes(tmp_path: Path) -> None:
    eight = deployment("large", 2, count=8)
    smaller = inference_class("h100", device("gpu", count=4))
    code, found = asked(
        tmp_path, [inference_class("h100", device("gpu", count=8)), observed((8, 1)), eight], apply=(smaller,)
    )
    assert code == 2
    assert [one["code"] for one in found["deployments"][0]["clusters"]] == ["TooFewDevices"]
    larger = observed((8, 2), pools={"default": 2})
    fleet = [inference_class("h100", device("gpu", count=8)), observed((8, 1), pools={"default": 1}), eight]
    code, found = asked(tmp_path, fleet, apply=(larger,))
    assert (code, found["deployments"][0]["after"]) == (0, 2)


def test_only_claimed_devices_are_on_a_node_that_is_added(tmp_path: Path) -> None:
    eight = deployment("large", 1, count=8)
    code, found = asked(tmp_path, [observed((2, 1)), eight], "--pool", "east/default=2")
    assert (code, found["deployments"][0]["after"]) == (0, 1)


def test_a_pool_that_lacks_nodes_already_does_not_fit(tmp_path: Path) -> None:
    two = deployment("chat", 2)
    fleet = [inference_cluster("east", pools={"default": 1}), two, replica(two, "east"), replica(two, "east", 1)]
    code, found = asked(tmp_path, fleet)
    assert (code, found["overcommitted"]) == (
        2,
        ["pool east/default has 1 node and its replicas need 2; add 1, or scale down"],
    )


def test_a_rehearsal_ends_where_it_is_after_so_many_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whatif, "ROUNDS", 1)
    fleet = [inference_cluster("east"), SMALL]
    found = whatif.rehearse(Scene(fleet), Scene(fleet))
    assert [(one.replica, one.target) for one in found.moves] == [(replica(SMALL, "east")["metadata"]["name"], "east")]
