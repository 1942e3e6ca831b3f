"""A watch cache stays right through everything that happens to a connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from modelplane import errors
from modelplane.api.meta import GVK, Key, Object
from modelplane.kube import Backoff, Client, Informer
from tests.kube.fake_api import FakeApi
from tests.kube.test_client import CONFIG_MAP, config_map

KEY = Key("default", "a")


async def until(condition: Callable[[], bool], limit: float = 15) -> None:
    """Wait for a condition that other tasks of this loop bring about."""
    async with asyncio.timeout(limit):
        while not condition():
            await asyncio.sleep(0.005)


@asynccontextmanager
async def informing(client: Client, kind: GVK = CONFIG_MAP, **options: object) -> AsyncIterator[Informer]:
    informer = Informer(client, kind, quiet=0.1, backoff=Backoff(0.01, 0.05), **options)  # type: ignore[arg-type]
    task = asyncio.create_task(informer.run())
    try:
        yield informer
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("watch_list", [True, False], ids=["streamed list", "list then watch"])
async def test_it_follows_additions_changes_and_removals(watch_list: bool) -> None:
    async with FakeApi(watch_list=watch_list) as api, api.client() as client:
        await client.create(config_map("a"))
        seen: list[tuple[bool, bool]] = []
        async with informing(client) as informer:
            await informer.synced.wait()
            informer.subscribe(lambda old, new: seen.append((old is not None, new is not None)))
            assert informer.healthy
            await client.patch(CONFIG_MAP, "a", "default", {"data": {"k": "v"}})
            await until(lambda: (informer.get(KEY) or {}).get("data") == {"k": "v"})
            await client.delete(CONFIG_MAP, "a", "default")
            await until(lambda: informer.get(KEY) is None)
            assert seen == [(False, True), (True, True), (True, False)]
        listed = ("GET", "/api/v1/configmaps") in api.requests
        assert listed


async def test_a_server_that_ignores_streamed_lists_is_listed_the_old_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("modelplane.kube.informer.INITIAL_LIMIT", 0.1)
    async with FakeApi() as api, api.client() as client:
        api.ignores_watch_list = True
        await client.create(config_map("a"))
        async with informing(client) as informer:
            await informer.synced.wait()
            assert informer.get(KEY) is not None
            await client.create(config_map("b"))
            await until(lambda: informer.get(Key("default", "b")) is not None)


async def test_a_broken_stream_resumes_without_a_second_list() -> None:
    async with FakeApi() as api, api.client() as client:
        await client.create(config_map("a"))
        async with informing(client) as informer:
            await informer.synced.wait()
            added: list[Object | None] = []
            informer.subscribe(lambda old, new: added.append(new) if old is None else None)
            await api.disconnect()
            await api.put(config_map("b"))
            await until(lambda: informer.get(Key("default", "b")) is not None)
            await until(lambda: informer.healthy)
            assert [obj["metadata"]["name"] for obj in added if obj] == ["a", "b"]


async def test_a_forgotten_version_is_listed_again_and_removals_are_told() -> None:
    async with FakeApi() as api, api.client() as client:
        await client.create(config_map("a"))
        async with informing(client) as informer:
            await informer.synced.wait()
            removed: list[str] = []
            informer.subscribe(lambda old, new: removed.append(old["metadata"]["name"]) if old and not new else None)
            await api.stop()
            await until(lambda: not informer.healthy)
            del api.objects[("/v1/configmaps", "default", "a")]
            await api.expire()
            await api.start()
            await until(lambda: informer.healthy)
            await until(lambda: removed == ["a"])


@pytest.mark.parametrize("how", ["killed", "hung"])
async def test_a_lost_server_shows_in_health_and_keeps_the_objects(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("modelplane.kube.client.PING_TIMEOUT", 0.2)
    async with FakeApi() as api, api.client() as client:
        await client.create(config_map("a"))
        changes: list[str] = []
        async with informing(client) as informer:
            informer.on_health(lambda: changes.append(type(informer.error).__name__))
            await informer.synced.wait()
            if how == "killed":
                await api.stop()
            else:
                api.hang = True
            await until(lambda: isinstance(informer.error, errors.Unreachable))
            assert informer.get(KEY) is not None, "what was seen stays"
            assert informer.synced.is_set()
            if how == "killed":
                await api.start()
            api.hang = False
            await until(lambda: informer.healthy)
            assert changes == ["NoneType", "Unreachable", "NoneType"]


@pytest.mark.parametrize(("code", "want"), [(401, errors.Unauthorized), (403, errors.Forbidden)])
async def test_a_refusal_is_told_apart_from_silence(code: int, want: type[Exception]) -> None:
    async with FakeApi() as api, api.client() as client:
        api.refuse = code
        async with informing(client) as informer:
            await until(lambda: informer.error is not None)
            assert type(informer.error) is want
            assert not informer.synced.is_set()
            api.refuse = None
            await until(lambda: informer.healthy)


async def test_a_revoked_token_is_noticed_on_an_open_quiet_stream() -> None:
    async with FakeApi() as api, api.client() as client, informing(client) as informer:
        await informer.synced.wait()
        api.refuse = 401
        await until(lambda: isinstance(informer.error, errors.Unauthorized))


async def test_a_kind_that_is_only_being_set_up_is_not_lost(caplog: pytest.LogCaptureFixture) -> None:
    """A server answers 429 `storage is (re)initializing` for the moment after a definition is there."""
    async with FakeApi() as api, api.client() as client:
        api.refuse = 429
        async with informing(client) as informer:
            await until(lambda: len(api.requests) > 2)
            assert informer.error is None
            assert not informer.synced.is_set()
            api.refuse = None
            await until(lambda: informer.healthy)
            api.refuse = 429
            await api.disconnect()
            await until(lambda: isinstance(informer.error, errors.Throttled)), "what was read gets old"
    assert [record for record in caplog.records if record.levelname == "WARNING"] == []


async def test_a_refusal_is_a_warning_once(caplog: pytest.LogCaptureFixture) -> None:
    """Who logs warnings alone still learns why a kind is never read."""
    async with FakeApi() as api, api.client() as client:
        api.refuse = 403
        async with informing(client):
            await until(lambda: len(api.requests) > 4)
    assert [record.levelname for record in caplog.records if "refused by the test" in record.message] == ["WARNING"]


async def test_a_kind_that_the_server_lacks_is_an_error_until_it_comes() -> None:
    toy = GVK("toys.example.com", "v1", "Toy")
    async with FakeApi() as api, api.client() as client, informing(client, toy) as informer:
        await until(lambda: isinstance(informer.error, errors.NotFound))
        api.serve_kind(toy)
        await until(lambda: informer.healthy)


async def test_an_event_that_makes_no_sense_ends_in_a_fresh_list(monkeypatch: pytest.MonkeyPatch) -> None:
    async with FakeApi() as api, api.client() as client:
        await client.create(config_map("a"))
        async with informing(client) as informer:
            await informer.synced.wait()
            changes: list[str] = []
            informer.on_health(lambda: changes.append(type(informer.error).__name__))
            api.history.append((api.version + 1, "MODIFIED", {**config_map("c"), "metadata": {"name": "c"}}))
            await api.put(config_map("b"))
            await until(lambda: changes == ["ServerFailure", "NoneType"])
            assert informer.get(Key("default", "b")) is not None


async def test_our_own_write_is_taken_over_only_when_it_is_newer() -> None:
    async with FakeApi() as api, api.client() as client:
        old = await client.create(config_map("a"))
        async with informing(client) as informer:
            await informer.synced.wait()
            newer = {**old, "metadata": {**old["metadata"], "resourceVersion": "999"}}
            informer.accept(newer)
            assert informer.get(KEY) is newer
            informer.accept(old)
            assert informer.get(KEY) is newer
            informer.accept({**config_map("ghost"), "metadata": {"name": "ghost", "resourceVersion": "1000"}})
            assert informer.get(Key("", "ghost")) is None, "a deletion may have been seen already"


def test_waits_double_up_to_the_bound_and_start_again_after_a_success() -> None:
    backoff = Backoff(1, 4)
    waits = [backoff.next() for _ in range(4)]
    for wait, bound in zip(waits, (1, 2, 4, 4), strict=True):
        assert bound / 2 <= wait <= bound
    backoff.reset()
    assert backoff.next() <= 1
