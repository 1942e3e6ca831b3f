"""Replicas are asked for their models through the gateway until they name one, and the answer is kept."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from modelplane.api.meta import Key, Object, condition_of
from modelplane.api.model_replica import KIND
from modelplane.control.caches import Caches
from modelplane.control.index import Parent
from modelplane.control.probes import Pace, Probes
from tests.control.harness import inference_cluster, until
from tests.kube.fake_api import FakeApi

KEY = Key("ml", "r")
QUICK = Pace(first=0.01, last=0.05, steady=0.03, patience=0.5)


class Gateway:
    """What answers behind a cluster's gateway address."""

    def __init__(self) -> None:
        self.models: list[str] | None = None
        self.asked: list[str] = []
        self.body: bytes | None = None
        self.port = 0

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append(request.path)
        if self.body is not None:
            return web.Response(body=self.body)
        if self.models is None:
            return web.Response(status=503)
        return web.json_response({"object": "list", "data": [{"id": name} for name in self.models]})

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Gateway]:
        app = web.Application()
        app.router.add_get("/{path:.*}", self.answer)
        runner = web.AppRunner(app, shutdown_timeout=0)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        assert site._server is not None
        self.port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
        try:
            yield self
        finally:
            await runner.cleanup()


def cluster(address: str | None) -> Object:
    return {**inference_cluster("east"), "status": {"gateway": {"address": address}} if address else {}}


def replica(*, ready: bool) -> Object:
    status = {"type": "ModelReady", "status": "True" if ready else "False", "reason": "x"}
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelReplica",
        "metadata": {"name": "r", "namespace": "ml"},
        "spec": {"clusterName": "east", "engines": []},
        "status": {"conditions": [status]},
    }


class Asking:
    """Probes over a fake control cluster, and what they said."""

    def __init__(self, api: FakeApi, caches: Caches) -> None:
        self.api = api
        self.woken: list[Parent] = []
        self.caches = caches
        self.probes = Probes(caches, self.woken.append, pace=QUICK)

    def says(self, status: str, reason: str) -> bool:
        """The condition as a composer would see it."""
        found = self.caches.get(KIND, KEY)
        if found is None:
            return False
        seen = condition_of(self.probes.overlay(found).over(found, "2026-11-29T12:00:00Z"), "EndpointAnswering")
        return seen is not None and (seen.status, seen.reason) == (status, reason)

    def models(self) -> list[str]:
        found = self.caches.get(KIND, KEY)
        assert found is not None
        return list(self.probes.overlay(found).fields.get("models", ()))


@pytest.fixture
async def asking(api: FakeApi) -> AsyncIterator[Asking]:
    async with api.client() as client:
        caches = Caches(client, clock=lambda: "")
        asking = Asking(api, caches)
        asking.probes.start()
        yield asking
        await asking.probes.close()
        await caches.close()


async def test_a_replica_is_asked_once_it_is_ready_and_its_cluster_has_an_address(asking: Asking) -> None:
    async with Gateway().serving() as gateway:
        gateway.models = ["llama"]
        await asking.api.put(cluster(None))
        await asking.api.put(replica(ready=False))
        await until(lambda: asking.says("Unknown", "NotProbed"))
        await asking.api.put(cluster(f"127.0.0.1:{gateway.port}"))
        await asking.api.put({**cluster(f"127.0.0.1:{gateway.port}"), "spec": inference_cluster("east")["spec"]})
        await until(lambda: bool(asking.caches.get(KIND, KEY)))
        assert gateway.asked == []
        await asking.api.put(replica(ready=True))
        await until(lambda: asking.says("True", "Answering"))
        assert gateway.asked[0] == "/ml/r/v1/models"
        assert asking.models() == ["llama"]
        assert asking.woken == [Parent(KIND, KEY)], "the reconciler hears of it once"


async def test_it_is_asked_until_it_answers(asking: Asking) -> None:
    async with Gateway().serving() as gateway:
        await asking.api.put(cluster(f"127.0.0.1:{gateway.port}"))
        await asking.api.put(replica(ready=True))
        await until(lambda: asking.says("False", "NoAnswer"))
        gateway.models = []
        await until(lambda: asking.says("False", "NoModels"))
        gateway.models = ["a", "b"]
        await until(lambda: asking.says("True", "Answering"))
        assert asking.models() == ["a", "b"]


async def test_one_lost_answer_is_no_outage_and_names_outlive_a_real_one(asking: Asking) -> None:
    async with Gateway().serving() as gateway:
        gateway.models = ["a"]
        await asking.api.put(cluster(f"127.0.0.1:{gateway.port}"))
        await asking.api.put(replica(ready=True))
        await until(lambda: asking.says("True", "Answering"))
        gateway.models = None
        asked = len(gateway.asked)
        await until(lambda: len(gateway.asked) > asked)
        assert asking.says("True", "Answering")
        await until(lambda: asking.says("False", "NoAnswer"))
        assert asking.models() == ["a"]
        gateway.models = ["a"]
        await until(lambda: asking.says("True", "Answering"))


@pytest.mark.parametrize("body", [b"", b"no json", b"[]", b'{"data": 7}', b'{"data": [7]}', b'{"data": [{"id": ""}]}'])
async def test_an_answer_that_is_no_list_of_models_is_none(asking: Asking, body: bytes) -> None:
    async with Gateway().serving() as gateway:
        gateway.body = body
        await asking.api.put(cluster(f"127.0.0.1:{gateway.port}"))
        await asking.api.put(replica(ready=True))
        await until(lambda: asking.says("False", "NoModels"))


async def test_after_a_restart_the_last_answer_stands_until_there_is_a_new_one(api: FakeApi) -> None:
    known = replica(ready=True)
    known["status"]["conditions"].append({"type": "EndpointAnswering", "status": "True", "reason": "Answering"})
    known["status"]["models"] = ["a"]
    await api.put(cluster("127.0.0.1:1"))
    await api.put(known)
    async with api.client() as client:
        caches = Caches(client, clock=lambda: "")
        caches.watch(None, KIND)
        await until(lambda: caches.get(KIND, KEY) is not None)
        probes = Probes(caches, lambda parent: None, pace=QUICK)
        found = caches.get(KIND, KEY)
        assert found is not None
        overlay = probes.overlay(found)
        assert (overlay.conditions, overlay.fields) == ((), {})
        assert overlay.types == {"EndpointAnswering"}
        await caches.close()
