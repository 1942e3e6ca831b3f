"""Which control plane a verb asks: the one that was named, then the fleet that runs, then kubectl's."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from modelplane import processes
from modelplane.cli import main
from modelplane.local.layout import Layout
from tests.kube.fake_api import FakeApi
from tests.rehearse.words import inference_cluster


@dataclass(frozen=True)
class Places:
    """The user's state directory, and a kubeconfig for each of three control planes, told apart by a cluster's name."""

    layout: Layout
    kubectls: Path
    named: Path

    async def status(self, *options: str, env: dict[str, str] | None = None) -> Result:
        given = {"XDG_STATE_HOME": str(self.layout.root.parent), "KUBECONFIG": str(self.kubectls)}
        more = {"MODELPLANE_DATA_DIR": None, **given, **(env or {})}
        return await asyncio.to_thread(CliRunner(env=more).invoke, main, ["status", *options])

    def runs(self) -> None:
        """As while a fleet runs in the state directory."""
        own = processes.Record(os.getpid(), processes.start_time(os.getpid()) or "", ())
        processes.remember(self.layout.record("apiserver"), own)


@pytest.fixture
async def places(tmp_path: Path) -> AsyncIterator[Places]:
    found = Places(Layout(tmp_path / "state" / "modelplane"), tmp_path / "kubectls", tmp_path / "named")
    found.layout.root.mkdir(parents=True)
    async with FakeApi() as local, FakeApi() as kubectls, FakeApi() as named:
        for api, name, path in (
            (local, "of-the-fleet", found.layout.kubeconfig),
            (kubectls, "of-kubectl", found.kubectls),
            (named, "named", found.named),
        ):
            await api.put(inference_cluster(name))
            path.write_text(api.kubeconfig_text())
        yield found


async def test_what_is_named_counts_before_everything(places: Places) -> None:
    places.runs()
    assert "named" in (await places.status("--kubeconfig", str(places.named))).output


async def test_a_fleet_that_runs_counts_before_kubectls_control_plane_also_after_its_supervisor_crashed(
    places: Places,
) -> None:
    places.runs()
    assert "of-the-fleet" in (await places.status()).output


async def test_where_no_fleet_runs_it_is_kubectls_control_plane(places: Places) -> None:
    assert "of-kubectl" in (await places.status()).output
    several = os.pathsep.join([str(places.kubectls.with_name("none")), str(places.kubectls)])
    assert "of-kubectl" in (await places.status(env={"KUBECONFIG": several})).output


@pytest.mark.parametrize("way", ["option", "variable"])
async def test_a_data_directory_that_was_chosen_is_asked_though_nothing_is_known_to_run_there(
    places: Places, way: str
) -> None:
    root = str(places.layout.root)
    by_option, by_variable = (["--data-dir", root], {}) if way == "option" else ([], {"MODELPLANE_DATA_DIR": root})
    assert "of-the-fleet" in (await places.status(*by_option, env=by_variable)).output


async def test_without_kubectls_variable_it_is_the_state_directory_and_what_is_missing_is_named(places: Places) -> None:
    assert "of-the-fleet" in (await places.status(env={"KUBECONFIG": ""})).output
    places.layout.kubeconfig.unlink()
    nothing = await places.status(env={"KUBECONFIG": ""})
    assert nothing.exit_code == 1
    for way in ("modelplane up", "--kubeconfig", "$KUBECONFIG"):
        assert way in nothing.output
