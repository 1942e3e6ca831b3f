"""The server inside another program's event loop, and what it answers about a past that it no longer knows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from modelplane.api.meta import GVK, Object
from modelplane.server import store
from modelplane.server.app import ApiServer, Options, start
from modelplane.server.schema import ErrorType, FieldError
from tests.server.api import Api, config_map

MAPS = "/api/v1/namespaces/default/configmaps"


def no_secrets(new: Object, old: Object | None) -> list[FieldError]:
    if "password" in (new.get("data") or {}):
        return [FieldError(path="data.password", type=ErrorType.FORBIDDEN, message="put it into a Secret")]
    return []


@pytest_asyncio.fixture
async def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ApiServer]:
    monkeypatch.setattr(store, "LOG_EVENTS", 8)
    options = Options(tmp_path, install_crds=False, reviews={GVK("", "v1", "ConfigMap"): no_secrets})
    running = await start(options)
    yield running
    await running.stop()


async def test_a_host_adds_reviews_of_its_own(server: ApiServer) -> None:
    def work() -> None:
        api = Api(server.kubeconfig)
        reply = api.call("POST", MAPS, config_map("a", password="x"))
        assert reply.code == 422
        assert reply.body["message"] == 'ConfigMap "a" is invalid: data.password: Forbidden: put it into a Secret'
        assert api.call("POST", MAPS, config_map("a", colour="x")).code == 201

    await asyncio.to_thread(work)


async def test_a_watch_from_a_forgotten_revision_gets_one_error_and_ends(server: ApiServer) -> None:
    def work() -> None:
        api = Api(server.kubeconfig)
        made = api.create(MAPS, config_map("a"))
        for number in range(12):
            api.patch(f"{MAPS}/a", {"data": {"n": str(number)}})
        with api.watch(f"{MAPS}?watch=1&resourceVersion={made['metadata']['resourceVersion']}") as events:
            seen = list(events)
        assert [event["type"] for event in seen] == ["ERROR"]
        status = seen[0]["object"]
        assert (status["code"], status["reason"]) == (410, "Expired")
        assert status["message"].startswith("too old resource version:")

    await asyncio.to_thread(work)


async def test_a_page_of_a_forgotten_revision_is_refused_with_a_token_that_goes_on(server: ApiServer) -> None:
    def work() -> None:
        api = Api(server.kubeconfig)
        for name in "abcd":
            api.create(MAPS, config_map(name))
        first = api.get(MAPS + "?limit=2")
        for number in range(12):
            api.patch(f"{MAPS}/a", {"data": {"n": str(number)}})
        reply = api.call("GET", f"{MAPS}?limit=2&continue={first['metadata']['continue']}")
        assert (reply.code, reply.body["reason"]) == (410, "Expired")
        rest = api.get(f"{MAPS}?continue={reply.body['metadata']['continue']}")
        assert [item["metadata"]["name"] for item in rest["items"]] == ["c", "d"]
        exact = api.call("GET", f"{MAPS}?resourceVersion=1&resourceVersionMatch=Exact")
        assert exact.code == 410

    await asyncio.to_thread(work)
