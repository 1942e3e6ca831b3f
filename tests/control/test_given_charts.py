"""Charts that a person installs: the command is said, Helm's own marks show that it was run, and what is a person's stays."""

from __future__ import annotations

import shlex

import msgspec
import pytest

from modelplane.api.cloud import Source
from modelplane.api.inference_gateway import Traefik
from modelplane.api.meta import Object
from modelplane.compose.contract import Chart, Child, Composition, World
from modelplane.compose.inference_gateway import _charts as front_door
from modelplane.compose.stack.components import charts
from modelplane.control.charts import command
from tests.control.harness import CHART, TOY, Toys, plane, toy, until
from tests.kube.fake_api import FakeApi

RELEASE = msgspec.structs.replace(CHART, values={"pools": [{"name": "it's"}]})


def revision(number: int, status: str) -> Object:
    """As Helm writes it."""
    labels = {"owner": "helm", "name": "mp-operator", "status": status, "version": str(number)}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "helm.sh/release.v1",
        "metadata": {
            "name": f"sh.helm.release.v1.mp-operator.v{number}",
            "namespace": "operator-system",
            "labels": labels,
        },
        "data": {"release": "eA=="},
    }


async def test_a_release_that_a_person_installed_counts_and_stays_when_its_parent_goes(
    api: FakeApi, remote: FakeApi, toys: Toys
) -> None:
    def compose(xr: Object, world: World) -> Composition:
        return Composition(children=[RELEASE])

    toys.override = compose
    async with plane(toys, api, remote, given_charts=True) as running:
        await api.put(toy())
        await until(lambda: "the event ChartMissing" in running.message("Synced"))
        assert running.says("Ready", "False")
        await until(lambda: any(event["reason"] == "ChartMissing" for event in api.all("Event")))
        [event] = [event for event in api.all("Event") if event["reason"] == "ChartMissing"]
        assert event["message"] == f"run on east: {command(RELEASE)}"
        assert event["type"] == "Warning", "nothing goes on before a person acts"
        await remote.put(revision(1, "failed"))
        await running.settled()
        assert running.says("Ready", "False"), "a release that failed is none"
        await remote.put(revision(2, "deployed"))
        await until(lambda: running.says("Ready", "True"))
        await remote.put(revision(2, "uninstalling"))
        await until(lambda: running.says("Ready", "False"))
        await remote.put(revision(3, "deployed"))
        await until(lambda: running.says("Ready", "True"))
        async with api.client() as client:
            await client.delete(TOY, "a", "ns")
        await until(lambda: api.find("Toy", "a", "ns") is None)
        assert len(remote.all("Secret")) == 3, "what a person installed is theirs"


async def test_a_missing_chart_is_said_beside_what_fails_for_lack_of_it(
    api: FakeApi, remote: FakeApi, toys: Toys
) -> None:
    """The definitions of a kind come with a chart: without the chart's line the failure looks like the cause."""

    def compose(xr: Object, world: World) -> Composition:
        gateway = {"apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": {"name": "t"}}
        return Composition(children=[RELEASE, Child(key="class", manifest=gateway)])

    toys.override = compose
    api.unserved = {"gateway.networking.k8s.io"}
    async with plane(toys, api, remote, given_charts=True) as running:
        await api.put(toy())
        await until(lambda: "is not installed; the event ChartMissing" in running.message("Synced"))
        assert "does not serve GatewayClass of gateway.networking.k8s.io/v1; install" in running.message("Synced")


@pytest.mark.parametrize(
    "chart",
    [*charts("a-cluster-with-quite-a-long-name", Source.GKE), *front_door(Traefik(version="40.2.0"))],
    ids=lambda chart: chart.release,
)
def test_the_command_of_every_chart_fits_an_event_and_is_one_that_helm_takes(chart: Chart) -> None:
    line = command(chart)
    assert len(f"run on {'c' * 63}: {line}") <= 1024
    words = shlex.split(line)
    assert words[:4] == ["helm", "upgrade", "--install", chart.release]
    assert words[4].startswith("oci://") != ("--repo" in words), "Helm takes no OCI registry as --repo"
    assert words.count("--set-json") == len(chart.values)
