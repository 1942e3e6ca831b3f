"""Of several operators one works: the Lease changes hands when it is let go or runs out, and never otherwise."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from modelplane.api.meta import GVK, Key, Object, condition_of
from modelplane.errors import LeaseLost, NotFound
from modelplane.kube import Client, Kubeconfig
from modelplane.operator.election import KEY, LEASE, Election, Times
from tests.conftest import Eventually

from .conftest import Operator, example

QUICK = Times(duration=3.0, renew=2.0, retry=0.2)
CLUSTER = GVK("modelplane.ai", "v1alpha1", "InferenceCluster")
CONFIG_MAP = GVK("", "v1", "ConfigMap")
STACK = GVK("infrastructure.modelplane.ai", "v1alpha1", "ServingStack")


@pytest.fixture
async def client(control: Path) -> AsyncIterator[Client]:
    async with Client(Kubeconfig.load(control / "admin.kubeconfig")) as client:
        yield client


@pytest.fixture
def candidate(client: Client, request: pytest.FixtureRequest) -> Callable[[str], Election]:
    key = Key("modelplane-system", re.sub("[^a-z0-9]+", "-", request.node.name.lower()).strip("-"))
    return lambda name: Election(client, name=name, key=key, times=QUICK)


async def lease(client: Client, election: Election) -> Object:
    return await client.get(LEASE, election._key.name, election._key.namespace)


async def test_the_second_candidate_waits_and_leads_as_soon_as_the_first_lets_go(
    candidate: Callable[[str], Election], client: Client, eventually: Eventually
) -> None:
    first, second = candidate("first"), candidate("second")
    await first.acquire()
    holding = asyncio.create_task(first.hold())
    waiting = asyncio.create_task(second.acquire())
    since = time.monotonic()
    await eventually(lambda: first._renewed > since + QUICK.duration)
    assert not waiting.done(), "a Lease that is renewed is not taken"
    holding.cancel()
    began = time.monotonic()
    await first.release()
    await asyncio.wait_for(waiting, 10)
    assert time.monotonic() - began < QUICK.duration, "the Lease had not to run out"
    spec = (await lease(client, second))["spec"]
    assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("second", 1)


async def test_a_leader_that_is_gone_is_followed_when_the_lease_has_run_out_and_not_before(
    candidate: Callable[[str], Election],
) -> None:
    first, second = candidate("first"), candidate("second")
    await first.acquire()
    began = time.monotonic()
    await asyncio.wait_for(second.acquire(), 10)
    assert QUICK.duration <= time.monotonic() - began < QUICK.duration + 2


async def test_a_leader_whose_lease_another_has_ends(candidate: Callable[[str], Election], client: Client) -> None:
    first = candidate("first")
    await first.acquire()
    stolen = await lease(client, first)
    stolen["spec"]["holderIdentity"] = "thief"
    await client.replace(stolen)
    with pytest.raises(LeaseLost, match="held by thief"):
        await asyncio.wait_for(first.hold(), 10)
    await first.release()
    assert (await lease(client, first))["spec"]["holderIdentity"] == "thief", "only its own Lease is let go"


async def test_a_leader_that_cannot_renew_ends_before_the_lease_runs_out(
    candidate: Callable[[str], Election], client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = candidate("first")
    await first.acquire()
    began = time.monotonic()

    async def silent(*_: object, **__: object) -> Object:
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(client, "request", silent)
    with pytest.raises(LeaseLost, match="could not be renewed"):
        await asyncio.wait_for(first.hold(), 10)
    assert time.monotonic() - began < QUICK.duration


@pytest.mark.parametrize(
    ("age", "why"),
    [
        pytest.param(QUICK.renew, "another may have it", id="it was paused for so long that another may lead"),
        pytest.param(None, "is not ours", id="it let go"),
    ],
)
async def test_nothing_is_written_by_one_that_is_not_sure_to_lead(
    age: float | None, why: str, candidate: Callable[[str], Election], client: Client, control: Path
) -> None:
    first = candidate("first")
    note = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "written", "namespace": "ml-team"}}
    async with Client(Kubeconfig.load(control / "admin.kubeconfig"), guard=first.guard) as guarded:
        with pytest.raises(LeaseLost, match="is not ours"):
            await guarded.apply(note)
        await first.acquire()
        await guarded.apply(note)
        if age is None:
            await first.release()
        else:
            first._renewed -= age
        for write in (
            guarded.apply({**note, "data": {"late": "yes"}}),
            guarded.create({**note, "metadata": {"name": "late", "namespace": "ml-team"}}),
            guarded.replace({**note, "data": {"late": "yes"}}),
            guarded.patch(CONFIG_MAP, "written", "ml-team", {"data": {"late": "yes"}}),
            guarded.delete(CONFIG_MAP, "written", "ml-team"),
        ):
            with pytest.raises(LeaseLost, match=why):
                await write
        assert "data" not in await guarded.get(CONFIG_MAP, "written", "ml-team"), "it may read, and nothing was written"
    with pytest.raises(NotFound):
        await client.get(CONFIG_MAP, "late", "ml-team")
    await client.delete(CONFIG_MAP, "written", "ml-team")


async def test_a_write_is_asked_about_again_when_its_body_goes_out(client: Client, control: Path) -> None:
    asked: list[int] = []

    def guard() -> None:
        asked.append(1)
        if len(asked) > 1:
            raise LeaseLost("it was paused in between")

    note = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "between", "namespace": "ml-team"}}
    async with Client(Kubeconfig.load(control / "admin.kubeconfig"), guard=guard) as guarded:
        with pytest.raises(LeaseLost, match="in between"):
            await guarded.create(note)
    with pytest.raises(NotFound):
        await client.get(CONFIG_MAP, "between", "ml-team")


async def test_a_touched_or_deleted_lease_is_renewed_all_the_same(
    candidate: Callable[[str], Election], client: Client, eventually: Eventually
) -> None:
    first = candidate("first")
    await first.acquire()
    holding = asyncio.create_task(first.hold())
    touched = await lease(client, first)
    await client.patch(LEASE, first._key.name, first._key.namespace, {"metadata": {"labels": {"seen": "yes"}}})
    before = touched["spec"]["renewTime"]

    async def renewed() -> bool:
        return bool((await lease(client, first))["spec"]["renewTime"] > before)

    await eventually(renewed)
    await client.delete(LEASE, first._key.name, first._key.namespace)

    async def back() -> bool:
        try:
            return bool((await lease(client, first))["spec"]["holderIdentity"] == "first")
        except NotFound:
            return False

    await eventually(back)
    assert not holding.done()
    holding.cancel()


async def holder(client: Client) -> str:
    try:
        return str((await client.get(LEASE, KEY.name, KEY.namespace))["spec"]["holderIdentity"])
    except NotFound:
        return ""


async def passed_over(client: Client, name: str) -> bool:
    try:
        return condition_of(await client.get(CLUSTER, name), "Synced") is not None
    except NotFound:
        return False


@pytest.mark.timeout(120)
async def test_a_killed_leader_is_followed_within_fifteen_seconds_and_nothing_is_there_twice(
    start: Callable[..., Operator], client: Client, eventually: Eventually
) -> None:
    leader = start("leader", "--leader-elect")
    await eventually(lambda: leader.said("reconciling"))
    standby = start("standby", "--leader-elect")
    await eventually(lambda: standby.said("standing by"))
    assert standby.get("/readyz")[0] == 200, "a rollout waits for readiness, and a standby has nothing to wait for"
    assert not standby.said("reconciling")

    for document in [*example("20-inference-class"), *example("30-inference-clusters")]:
        await client.apply(document, field_manager="a-user")
    names = [document["metadata"]["name"] for document in example("30-inference-clusters")]  # type: ignore[index]

    async def stacked() -> bool:
        return len((await client.list(STACK)).items) == len(names)

    await eventually(stacked)
    stacks = {stack["metadata"]["uid"] for stack in (await client.list(STACK)).items}
    first = await holder(client)
    leader.kill()
    began = time.monotonic()
    another = {**example("30-inference-clusters")[0], "metadata": {"name": "later"}}
    await client.apply(another, field_manager="a-user")
    await eventually(lambda: standby.said("leading as"), within=20)
    assert time.monotonic() - began <= 15.0
    assert await holder(client) not in ("", first)
    await eventually(lambda: passed_over(client, "later"), within=10)

    async def one_more() -> bool:
        return len((await client.list(STACK)).items) == len(names) + 1

    await eventually(one_more)
    now = {stack["metadata"]["uid"] for stack in (await client.list(STACK)).items}
    assert stacks < now, "what the first made is gone on with, not made again"
    assert not standby.said("orbidden")


@pytest.mark.timeout(120)
async def test_a_stopped_leader_lets_go_and_the_standby_leads_at_once(
    start: Callable[..., Operator], client: Client, eventually: Eventually
) -> None:
    leader = start("leader", "--leader-elect")
    await eventually(lambda: leader.said("reconciling"), within=40)
    standby = start("standby", "--leader-elect")
    await eventually(lambda: standby.said("standing by"))
    assert leader.stop() == 0
    stopped = time.monotonic()
    await eventually(lambda: standby.said("leading as"))
    assert time.monotonic() - stopped < Times().duration / 2, "a Lease that nobody let go would have to run out first"
    assert standby.stop() == 0
    assert await holder(client) == "", "the last one leaves the Lease free"


@pytest.mark.timeout(120)
async def test_an_operator_that_loses_its_lease_ends_with_a_sentence(
    start: Callable[..., Operator], client: Client, eventually: Eventually
) -> None:
    leader = start("leader", "--leader-elect")
    await eventually(lambda: leader.said("reconciling"), within=40)
    await client.patch(LEASE, KEY.name, KEY.namespace, {"spec": {"holderIdentity": "thief"}})
    assert await asyncio.to_thread(leader.process.wait, 15) == 1
    assert leader.said("held by thief; this operator ends")
    assert not leader.said("Traceback")
    await client.delete(LEASE, KEY.name, KEY.namespace)
