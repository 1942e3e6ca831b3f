"""Every figure has its age, and one that is too old is told as such."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from modelplane.api.meta import Object
from modelplane.cli import main
from modelplane.control.deletion import Bounds
from modelplane.plan.figures import STALE, span
from modelplane.plan.scene import Scene
from modelplane.plan.times import instant
from tests.rehearse.words import GPU, deployment, inference_cluster, replica

TAKEN = "2026-11-29T12:00:00Z"
CHAT = deployment("chat", 2)


def observed(name: str, time: str | None, pools: tuple[str, ...] = ("default",), free: int = 0) -> Object:
    found = inference_cluster(name, pools=dict.fromkeys(pools, 1))
    for pool in found["status"]["gpuPools"]:
        pool["capacity"] = {"source": "Observed", "nodesByFreeDevices": [{"free": {GPU: free}, "nodes": 1}]}
        pool["capacity"] |= {"observedTime": time} if time else {}
    return found


def unpublished(name: str) -> Object:
    found = inference_cluster(name)
    found["status"]["gpuPools"] = []
    return found


def asked(tmp_path: Path, fleet: list[Object], *arguments: str, taken: str = TAKEN) -> str:
    path = tmp_path / "fleet.json"
    path.write_text(json.dumps(Scene(fleet, taken).document()))
    result = CliRunner().invoke(main, [*arguments, "--snapshot", str(path)])
    assert result.exit_code in (0, 2), result.output
    return result.stdout


def explained(tmp_path: Path, fleet: list[Object], taken: str = TAKEN) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        asked(tmp_path, fleet, "explain", "md/chat", "-n", "ml", "-o", "json", taken=taken)
    )
    return found


CASES: list[tuple[Object, str, float | None, bool, str]] = [
    (inference_cluster("east", pools={"default": 0}), "declared", None, False, "the spec is as old as the question"),
    (observed("east", "2026-11-29T11:59:30Z"), "30 s old", 30, False, "seconds"),
    (observed("east", "2026-11-29T13:57:00+02:00"), "3 min old", 180, False, "another zone, and minutes"),
    (observed("east", "2026-11-29T11:55:00.000000000Z"), "5 min old", 300, False, "just young enough"),
    (observed("east", "2026-11-29T11:54:59Z"), "5 min old", 301, True, "just too old"),
    (observed("east", "2026-11-29T02:00:00Z"), "10 h old", 36_000, True, "hours"),
    (observed("east", "2026-11-20T12:00:00Z"), "9 d old", 777_600, True, "days"),
    (observed("east", "2026-11-29T12:00:09Z"), "0 s old", 0, False, "a clock that goes ahead"),
    (observed("east", None), "observed at an unknown time", None, False, "nobody wrote it down"),
    (unpublished("east"), "-", None, False, "no pool, no figures"),
]


@pytest.mark.parametrize(("cluster", "cell", "age", "old", "reason"), CASES, ids=[case[4] for case in CASES])
def test_a_clusters_figures_have_their_source_and_age(
    tmp_path: Path, cluster: Object, cell: str, age: float | None, old: bool, reason: str
) -> None:
    text = asked(tmp_path, [cluster, CHAT], "explain", "md/chat", "-n", "ml")
    row = next(line for line in text.splitlines() if line.startswith("east"))
    assert row.split(None, 2)[2].startswith(cell), reason
    assert f"Figures as of {TAKEN}." in text
    told = explained(tmp_path, [cluster, CHAT])
    assert told["asOf"] == TAKEN
    figures = told["clusters"][0]["figures"]
    assert [(one["ageSeconds"], one["stale"]) for one in figures] == [(age, old)][: len(figures)]
    assert ("may be wrong by now" in text) is old
    assert bool(told["notes"]) is old


def test_of_several_pools_the_oldest_is_told_and_each_in_json(tmp_path: Path) -> None:
    both = observed("east", "2026-11-29T11:59:30Z", ("a", "b", "c"))
    both["status"]["gpuPools"][1]["capacity"]["observedTime"] = "2026-11-29T11:00:00Z"
    both["status"]["gpuPools"][2]["capacity"] = {"source": "Declared"}
    assert "declared, 60 min old" in asked(tmp_path, [both, CHAT], "explain", "md/chat", "-n", "ml")
    told = explained(tmp_path, [both, CHAT])
    assert [(one["pool"], one["source"], one["ageSeconds"]) for one in told["clusters"][0]["figures"]] == [
        ("a", "Observed", 30),
        ("b", "Observed", 3600),
        ("c", "Declared", None),
    ]
    assert told["notes"] == [
        "the figures of pool east/b are 60 min old (observed 2026-11-29T11:00:00Z) and may be wrong by now; "
        "see whether the agent of east runs"
    ]
    planned = json.loads(asked(tmp_path, [both, CHAT], "plan", "-o", "json"))
    assert planned["notes"] == told["notes"], "a rehearsal counts on the same figures"
    assert planned["deployments"][0]["clusters"][0]["figures"] == told["clusters"][0]["figures"]


def test_many_old_pools_are_counted(tmp_path: Path) -> None:
    fleet = [observed(f"c{number}", "2026-11-29T11:00:00Z") for number in range(7)]
    notes = explained(tmp_path, [*fleet, CHAT])["notes"]
    assert len(notes) == 6
    assert notes[-1] == "and those of 2 other pools are as old"


def test_where_nobody_wrote_the_time_of_the_question_down_no_age_is_made_up(tmp_path: Path) -> None:
    fleet = [observed("east", "2026-11-29T11:00:00Z"), CHAT]
    told = explained(tmp_path, fleet, taken="")
    assert (told["asOf"], told["clusters"][0]["figures"][0]["ageSeconds"]) == (None, None)
    text = asked(tmp_path, fleet, "explain", "md/chat", "-n", "ml", taken="")
    assert "Figures as of an unknown time." in text
    assert "observed 2026-11-29T11:00:00Z" in text
    assert json.loads(asked(tmp_path, fleet, "plan", "-o", "json", taken=""))["asOf"] is None


def test_what_grows_counts_into_what_an_overcommitted_pool_would_need(tmp_path: Path) -> None:
    east = inference_cluster("east", pools={"default": 1})
    east["status"]["gpuPools"][0]["capacity"]["growNodes"] = 1
    fleet = [east, CHAT, *(replica(CHAT, "east", index) for index in range(3))]
    planned = json.loads(asked(tmp_path, fleet, "plan", "--scale", "ml/chat=3", "-o", "json"))
    assert planned["overcommitted"] == ["pool east/default has 1 node and its replicas need 3; add 1, or scale down"]


def test_an_observation_is_taken_for_the_present_as_long_as_a_silent_cluster_is_waited_for() -> None:
    assert Bounds().unreachable == STALE


NO_TIMES = ["", "yesterday", "2026-11-29", "2026-13-29T12:00:00Z", "2026-11-29T12:00:00", "٢026-11-29T12:00:00Z"]


@pytest.mark.parametrize("text", NO_TIMES)
def test_a_text_that_is_no_rfc_3339_time_is_none(text: str) -> None:
    assert instant(text) is None


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (119, "119 s"), (120, "2 min"), (7_200, "2 h"), (172_800, "2 d")]
)
def test_a_length_of_time_is_told_in_one_unit(seconds: float, text: str) -> None:
    assert span(seconds) == text
