"""What fails for good is in the log as a warning, and once: at level warning an operator that gets nowhere says so."""

from __future__ import annotations

import logging

import pytest

from modelplane.control.told import AGAIN, Told
from tests.control.harness import Toys, plane, toy, until
from tests.kube.fake_api import FakeApi


def warnings(caplog: pytest.LogCaptureFixture, words: str) -> list[str]:
    return [record.levelname for record in caplog.records if words in record.message and record.levelno > logging.INFO]


def test_the_same_words_are_news_again_only_after_a_while_or_when_it_was_well_between() -> None:
    now = 0.0
    told = Told(lambda: now)
    assert told.news("a", "no")
    assert told.news("b", "no")
    assert not told.news("a", "no")
    assert told.news("a", "never"), "other words"
    now = AGAIN
    assert told.news("a", "never"), "who reads the end of a log finds it"
    told.forget("a")
    assert told.news("a", "never")


async def test_a_pass_that_is_refused_again_and_again_is_one_warning(
    api: FakeApi, remote: FakeApi, toys: Toys, caplog: pytest.LogCaptureFixture
) -> None:
    api.refuse_writes = {"toys": 403}
    async with plane(toys, api, remote) as running:
        await api.put(toy(parts={"a": {}}))
        await until(lambda: running.reconciler.count > 5)
    assert warnings(caplog, "toys are refused by the test") == ["WARNING"]


async def test_a_child_that_is_refused_is_one_warning_too(
    api: FakeApi, remote: FakeApi, toys: Toys, caplog: pytest.LogCaptureFixture
) -> None:
    """The pass itself ends well: it has written the refusal into Synced."""
    api.refuse_writes = {"configmaps": 403}
    async with plane(toys, api, remote) as running:
        await api.put(toy(parts={"a": {}}))
        await until(lambda: "configmaps are refused" in running.message("Synced"))
        begun = running.reconciler.count
        await until(lambda: running.reconciler.count > begun + 2)
    assert warnings(caplog, "configmaps are refused by the test") == ["WARNING"]


@pytest.mark.parametrize("refused", ["toys", "configmaps"])
async def test_a_right_that_all_lack_is_one_warning_for_all(
    refused: str, api: FakeApi, remote: FakeApi, toys: Toys, caplog: pytest.LogCaptureFixture
) -> None:
    """A role of yesterday's version concerns a thousand objects, and is one thing to mend."""
    api.refuse_writes = {refused: 403}
    api.refusal = f'User "o" cannot patch resource "{refused}" in API group "g" in the namespace "ns"'
    async with plane(toys, api, remote) as running:
        for name in "abcde":
            await api.put(toy(name, parts={"a": {}}))
        await until(lambda: running.reconciler.count > 15)
    assert warnings(caplog, f'cannot patch resource "{refused}"') == ["WARNING"]


async def test_a_failure_that_should_pass_is_told_when_it_does_not(
    api: FakeApi, remote: FakeApi, toys: Toys, caplog: pytest.LogCaptureFixture
) -> None:
    api.refuse_writes = {"toys": 500}
    async with plane(toys, api, remote) as running:
        await api.put(toy(parts={"a": {}}))
        await until(lambda: running.reconciler.count > 2)
        assert warnings(caplog, "toys are refused by the test") == [], "a server may be short of breath"
        await until(lambda: warnings(caplog, "toys are refused by the test") == ["WARNING"])
