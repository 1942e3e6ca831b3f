"""What a collector reads: the text format by the letter, and figures that follow what the operator did."""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from modelplane.api.meta import Key
from modelplane.api.model_deployment import KIND as MODEL_DEPLOYMENT
from modelplane.control.index import Parent
from modelplane.control.queue import Depth, WorkQueue
from modelplane.errors import Conflict
from modelplane.kube import Client, Kubeconfig
from modelplane.operator.logs import Json
from modelplane.operator.metrics import Counter, Histogram, Metrics
from tests.conftest import Eventually

from .conftest import ROOT, Operator, example

SAMPLE = re.compile(r'([a-z_]+)(\{[a-z_]+="[^"]*"(,[a-z_]+="[^"]*")*\})? (\S+)')


def samples(text: str) -> dict[str, float]:
    """Every sample by its name and labels; fails on a line that the format does not have."""
    found = {}
    for line in text.splitlines():
        if not line.startswith(("# HELP ", "# TYPE ")):
            match = SAMPLE.fullmatch(line)
            assert match, line
            found[f"{match[1]}{match[2] or ''}"] = float(match[4])
    return found


@pytest.fixture
def metrics() -> Metrics:
    return Metrics(
        depth=lambda: Depth(3, 2, 1), leading=lambda: True, unplaced=lambda: {"NoClusters": 2, "NoCacheStorage": 1}
    )


def test_a_histogram_counts_every_value_in_its_bucket_and_all_above() -> None:
    histogram = Histogram("took_seconds", "How long.", ("kind",))
    for seconds in (0.001, 0.002, 0.3, 99.0):
        histogram.add("A", seconds=seconds)
    found = samples("\n".join(histogram.lines()))
    wanted = {"0.001": 1, "0.0025": 2, "0.25": 2, "0.5": 3, "10": 3, "+Inf": 4}
    assert {bound: found[f'took_seconds_bucket{{kind="A",le="{bound}"}}'] for bound in wanted} == wanted
    assert found['took_seconds_count{kind="A"}'] == 4
    assert found['took_seconds_sum{kind="A"}'] == pytest.approx(99.303)


def test_a_label_value_cannot_break_out_of_its_quotes() -> None:
    counter = Counter("seen_total", "Seen.", ("name",))
    counter.add('a"b\\c\nd')
    assert list(counter.lines())[-1] == 'seen_total{name="a\\"b\\\\c\\nd"} 1'


def test_a_failed_pass_counts_as_a_pass_and_as_an_error_of_its_kind(metrics: Metrics) -> None:
    parent = Parent(MODEL_DEPLOYMENT, Key("ml-team", "chat"))
    metrics.passed(parent, 0.01, None)
    metrics.passed(parent, 0.01, Conflict("somebody wrote first"))
    found = samples(metrics.text())
    assert found['modelplane_pass_seconds_count{kind="ModelDeployment"}'] == 2
    assert found['modelplane_pass_errors_total{kind="ModelDeployment",error="Conflict"}'] == 1


def test_the_queue_is_read_when_it_is_asked_for(metrics: Metrics) -> None:
    found = samples(metrics.text())
    assert [found[f'modelplane_queue_depth{{state="{state}"}}'] for state in ("ready", "active", "later")] == [3, 2, 1]


async def test_the_depth_of_a_queue_tells_ready_active_and_later_apart() -> None:
    queue: WorkQueue[str] = WorkQueue(lambda item: ())
    queue.add("a")
    queue.add("b")
    queue.add_after("c", 60)
    await queue.take()
    assert queue.depth == Depth(1, 1, 1)
    queue.close()


def test_every_metric_is_on_the_page_and_no_other(metrics: Metrics) -> None:
    text = (ROOT / "docs/operating.md").read_text()
    section = text[text.index("\n## Metrics\n") :].split("\n## ", 2)[1]
    told = {
        name
        for line in section.splitlines()
        if line.startswith("| `")
        for name in re.findall(r"`((?:modelplane|process)_\w+)`", line)
    }
    assert told == set(re.findall(r"# TYPE (\w+)", metrics.text()))


def test_the_names_are_what_prometheus_lint_wants(metrics: Metrics) -> None:
    """The rules of promtool's lint that concern us."""
    metrics.passed(Parent(MODEL_DEPLOYMENT, Key("ml-team", "chat")), 0.01, Conflict("somebody wrote first"))
    text = metrics.text()
    types = dict(re.findall(r"^# TYPE (\w+) (\w+)$", text, re.MULTILINE))
    helps = dict(re.findall(r"^# HELP (\w+) (.+)$", text, re.MULTILINE))
    assert helps.keys() == types.keys(), "every metric has a help text"
    for name, kind in types.items():
        assert re.fullmatch(r"(modelplane|process)_[a-z]+(_[a-z]+)*", name), "snake case, with a prefix"
        assert name.endswith("_total") == (kind == "counter"), "counters, and they alone, end in _total"
        assert not re.search(r"_(ms|milliseconds|minutes|hours|kb|mb|kilobytes|percent)(_|$)", name), "base units"
        assert not re.search(r"_(counter|gauge|histogram|count|sum|bucket)$", name), "no type in a name"
        assert kind != "histogram" or name.endswith("_seconds"), "what is measured has its unit"
    labels = {label for sample in samples(text) for label in re.findall(r'(\w+)="', sample)}
    assert labels <= {"kind", "error", "target_cluster", "verb", "code", "reason", "state", "version", "le"}


def test_the_process_is_told_as_every_client_library_tells_it(metrics: Metrics, tmp_path: Path) -> None:
    """Dashboards for processes look for these names and units."""
    found = samples(metrics.text())
    if not Path("/proc/self/statm").exists():
        pytest.skip("this system has no /proc, so memory and files are not told")
    before = found["process_open_fds"]
    assert 1 << 20 < found["process_resident_memory_bytes"] < found["process_virtual_memory_bytes"]
    assert 0 < before <= found["process_max_fds"]
    assert found["process_cpu_seconds_total"] > 0
    assert found["process_start_time_seconds"] <= time.time()
    with (tmp_path / "a").open("w"), (tmp_path / "b").open("w"):
        assert samples(metrics.text())["process_open_fds"] == before + 2


def test_what_a_system_does_not_say_of_a_process_is_left_out(
    metrics: Metrics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("modelplane.operator.process.PROC", tmp_path / "nothing")
    found = samples(metrics.text())
    assert "process_open_fds" not in found
    assert found["process_cpu_seconds_total"] > 0


def test_a_line_of_the_json_log_is_one_object_with_its_traceback() -> None:
    try:
        raise Conflict("somebody\nwrote first")
    except Conflict:
        import sys

        record = logging.LogRecord("modelplane.x", logging.ERROR, "", 0, "%s failed", ("a pass",), sys.exc_info())
    line = Json().format(record)
    assert "\n" not in line
    entry = json.loads(line)
    assert (entry["level"], entry["logger"], entry["message"]) == ("error", "modelplane.x", "a pass failed")
    assert entry["error"].endswith("wrote first")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", entry["time"])


@pytest.mark.timeout(120)
async def test_a_deployment_that_fits_nowhere_is_a_refusal_with_its_reason(
    start: Callable[..., Operator], control: Path, eventually: Eventually
) -> None:
    operator = start("operator", "--log-format", "json", "--health-address", "127.0.0.1")
    await eventually(lambda: operator.get("/readyz")[0] == 200, within=40)
    async with Client(Kubeconfig.load(control / "admin.kubeconfig")) as client:
        for name in ("20-inference-class", "30-inference-clusters", "40-model-deployment"):
            for document in example(name):
                await client.apply(document, field_manager="a-user")
    refused = 'modelplane_placement_refusals_total{reason="InsufficientCapacity"}'
    unplaced = 'modelplane_replicas_unplaced{reason="InsufficientCapacity"}'
    passed = 'modelplane_pass_seconds_count{kind="ModelDeployment"}'
    await eventually(lambda: {refused, unplaced, passed} <= samples(operator.get("/metrics")[1]).keys())
    found = samples(operator.get("/metrics")[1])
    assert found["modelplane_leading"] == 1
    assert found["modelplane_placements_total"] == 0
    [deployment] = example("40-model-deployment")
    wanted = deployment["spec"]["replicas"]  # type: ignore[index]
    assert (found[refused], found[unplaced]) == (wanted, wanted), "replicas are counted, not plans"
    assert found['modelplane_api_requests_total{target_cluster="control",verb="PATCH",code="200"}'] > 0
    assert found['modelplane_api_requests_total{target_cluster="control",verb="WATCH",code="200"}'] > 0
    assert all(json.loads(line)["message"] for line in operator.log.read_text().splitlines())
