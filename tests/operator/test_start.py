"""What an operator says while it cannot begin, and when it loses its Lease: what is missing, once, with the last answer."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator

import pytest

from modelplane.errors import LeaseLost
from modelplane.kube import Kubeconfig
from modelplane.operator.app import Operator, Options
from modelplane.operator.election import Election, Times, leader
from tests.conftest import Eventually
from tests.kube.fake_api import FakeApi

QUICK = Times(duration=1.5, renew=1.0, retry=0.1)


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    async with FakeApi() as server:
        await server.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system"}})
        yield server


@contextlib.asynccontextmanager
async def starting(api: FakeApi) -> AsyncIterator[Operator]:
    """An operator that cannot finish its start."""
    operator = Operator(Options(kubeconfig=Kubeconfig.parse(api.kubeconfig_text())))
    start = asyncio.create_task(operator.start())
    try:
        yield operator
        assert not start.done()
    finally:
        start.cancel()
        await asyncio.gather(start, return_exceptions=True)
        await operator.close()


def told(caplog: pytest.LogCaptureFixture, words: str, level: int = logging.WARNING) -> list[str]:
    return [record.message for record in caplog.records if words in record.message and record.levelno >= level]


async def test_readiness_names_the_definitions_that_are_missing(
    api: FakeApi, eventually: Eventually, caplog: pytest.LogCaptureFixture
) -> None:
    """`still reading the cluster` would be waited for in vain."""
    api.unserved = {"modelplane.ai"}
    words = "does not serve InferenceCluster of modelplane.ai/v1alpha1; install Modelplane's definitions"
    async with starting(api) as operator:
        await eventually(lambda: words in operator._unready())
        assert operator._unready().startswith("still reading the cluster; ")
        assert len(told(caplog, words)) == 1


async def test_readiness_names_the_right_that_is_missing_and_nothing_that_was_read(
    api: FakeApi, eventually: Eventually, caplog: pytest.LogCaptureFixture
) -> None:
    api.refuse_reads = {"modelservices": 403}
    async with starting(api) as operator:
        await eventually(lambda: "ModelService: modelservices are refused by the test (" in operator._unready())
        await eventually(lambda: "no answer yet" not in operator._unready())
        assert operator._unready().count(": modelservices") == 1
        assert "ModelDeployment" not in operator._unready()
        assert len(told(caplog, "modelservices are refused by the test")) == 1


async def test_a_kind_that_is_being_set_up_is_waited_for_and_not_called_lost(
    api: FakeApi, eventually: Eventually, caplog: pytest.LogCaptureFixture
) -> None:
    """A first start comes right after its definitions, when the server answers 429 for a moment."""
    api.refuse_reads = {"modeldeployments": 429}
    async with starting(api) as operator:
        await eventually(lambda: operator._unready() == "still reading the cluster; no answer yet for ModelDeployment")
        assert told(caplog, "") == []


async def test_an_api_server_that_is_not_there_is_waited_for_in_one_line(
    api: FakeApi, eventually: Eventually, caplog: pytest.LogCaptureFixture
) -> None:
    await api.stop()
    async with starting(api) as operator:
        await eventually(lambda: 'verb="GET",code="0"} 4' in operator.metrics.text())
        assert operator._unready().startswith("waiting for the API server: nothing answers (")
    assert len(told(caplog, "waiting for the API server")) == 1


@pytest.mark.parametrize("then_silent", [False, True], ids=["refused to the end", "refused, then silent"])
async def test_a_lost_lease_is_told_with_the_last_answer(
    then_silent: bool, api: FakeApi, eventually: Eventually, caplog: pytest.LogCaptureFixture
) -> None:
    """`no answer in time` sends one to the network when the account is gone."""
    async with api.client() as client:
        election = Election(client, name="first", times=QUICK)
        await election.acquire()
        holding = asyncio.create_task(election.hold())
        api.refuse = 401
        await eventually(lambda: told(caplog, "is not renewed"))
        api.hang = then_silent
        with pytest.raises(LeaseLost, match=r"could not be renewed for 1 s \(refused by the test"):
            await asyncio.wait_for(holding, 10)
        assert len(told(caplog, "is not renewed")) == 1
        api.hang = False


@pytest.mark.parametrize("held", [True, False])
async def test_a_lease_runs_out_only_where_it_was_held(
    held: bool, api: FakeApi, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("modelplane.operator.election.RELEASE_WITHIN", 0.1)
    caplog.set_level(logging.INFO)
    async with api.client() as client:
        election = Election(client, name="first", times=QUICK)
        if held:
            await election.acquire()
        api.hang = True
        await election.release()
        lines = told(caplog, "runs out by itself", logging.INFO)
        assert len(lines) == held
        assert all(line.endswith("runs out by itself: no answer in time") for line in lines)
        api.hang = False


async def test_an_operator_without_election_warns_of_one_that_leads(
    api: FakeApi, eventually: Eventually, caplog: pytest.LogCaptureFixture
) -> None:
    operator = Operator(Options(kubeconfig=Kubeconfig.parse(api.kubeconfig_text())))
    async with api.client() as client:
        await operator._look_around(QUICK)
        election = Election(client, name="first", times=QUICK)
        await election.acquire()
        assert await leader(client, times=QUICK) == "", "a Lease that nobody renews is nobody's"
        await operator._look_around(QUICK)
        assert told(caplog, "holds the Lease") == []
        holding = asyncio.create_task(election.hold())
        await operator._look_around(QUICK)
        assert [line.split(";")[0] for line in told(caplog, "holds the Lease")] == [
            "first holds the Lease modelplane-system/modelplane-operator and works, too: two operators undo each other's work"
        ]
        holding.cancel()
    await operator.client.close()


async def test_a_lease_that_is_lost_while_the_start_waits_ends_the_start(api: FakeApi, eventually: Eventually) -> None:
    """The wait for missing definitions may last for ever, and an operator that does not lead would sit there as long."""
    api.unserved = {"modelplane.ai"}
    operator = Operator(Options(kubeconfig=Kubeconfig.parse(api.kubeconfig_text()), leader_elect=True))
    assert operator.electorate is not None
    operator.election = Election(operator.electorate, name="first", times=QUICK)
    start = asyncio.create_task(operator.start())
    try:
        await eventually(lambda: "install Modelplane's definitions" in operator._unready())
        api.refuse = 401
        with pytest.raises(LeaseLost, match="could not be renewed"):
            await asyncio.wait_for(start, 20)
    finally:
        await operator.close()


async def test_a_reconciler_that_ends_before_it_began_ends_the_start(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator = Operator(Options(kubeconfig=Kubeconfig.parse(api.kubeconfig_text())))

    async def broken() -> None:
        raise ValueError("a bug")

    monkeypatch.setattr(operator.reconciler, "run", broken)
    try:
        with pytest.raises(ValueError, match="a bug"):
            await asyncio.wait_for(operator.start(), 20)
    finally:
        await operator.close()
