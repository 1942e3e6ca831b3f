"""The gateway process against Kubernetes APIs: a request's whole way, statuses, and every kind of crash."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import aiohttp
import pytest

from modelplane import processes
from modelplane.api.meta import is_true
from tests.gateway import objects as make
from tests.gateway.fleet import NAMESPACE, Fleet, fleet
from tests.gateway.rig import until


@pytest.fixture
async def running(tmp_path: Path):
    async with fleet(tmp_path, "east") as made:
        yield made


async def test_a_request_goes_through_the_front_door_and_the_cluster_gateway_to_the_engine(running: Fleet) -> None:
    await running.deploy()
    url = await running.url()
    await until(lambda: running.answers(url))
    async with running.http.post(f"{url}/v1/chat/completions?x=1", data=b"{}") as response:
        assert (await response.json())["path"] == "/v1/chat/completions?x=1"
    assert set(running.engine.checks) == {"/health"}
    assert len(running.proxies()) == 2


async def test_an_address_is_published_only_when_somebody_listens_there_and_is_kept(running: Fleet) -> None:
    seen: list[tuple[str, bool]] = []
    await running.put(running.control, make.gateway_class(), make.gateway())

    async def told() -> bool:
        gateway = running.control.find("Gateway", "modelplane", NAMESPACE)
        assert gateway is not None
        for entry in (gateway.get("status") or {}).get("addresses") or ():
            seen.append((entry["value"], await running.listens(entry["value"])))
        return bool(seen)

    await until(told)
    assert all(listening for _, listening in seen)
    os.kill(running.proxy("control").pid, signal.SIGKILL)
    told_by: set[str] = set()

    def back() -> bool:
        gateway = running.control.find("Gateway", "modelplane", NAMESPACE)
        assert gateway is not None
        told_by.update(entry["value"] for entry in gateway["status"]["addresses"] or [{"value": "none"}])
        return len(running.proxies()) == 1 and is_true(gateway, "Programmed")

    await until(back)
    assert told_by == {seen[0][0]}


async def test_every_object_says_how_it_is(running: Fleet) -> None:
    await running.deploy()
    await until(lambda: _accepted(running, "control", "mock"))
    await until(lambda: _accepted(running, "east", "mock-east"))
    for api, name, class_ in (
        (running.control, "modelplane", "traefik"),
        (running.cluster, "inference-gateway", "envoy"),
    ):
        gateway = api.find("Gateway", name, NAMESPACE)
        accepted = api.find("GatewayClass", class_)
        assert gateway is not None
        assert accepted is not None
        assert is_true(accepted, "Accepted")
        assert is_true(gateway, "Accepted")
        assert gateway["status"]["addresses"][0]["value"].startswith("127.0.0.1:")
        assert gateway["status"]["listeners"][0]["attachedRoutes"] == 1
    pool = running.cluster.find("InferencePool", "mock-pool", "ml-team")
    assert pool is not None
    assert pool["status"]["parents"][0]["conditions"][0]["type"] == "Accepted"


def _accepted(running: Fleet, where: str, name: str) -> bool:
    route = (running.control if where == "control" else running.cluster).find("HTTPRoute", name, "ml-team")
    assert route is not None
    parents = (route.get("status") or {}).get("parents") or []
    return any(all(entry["status"] == "True" for entry in parent["conditions"]) for parent in parents)


async def test_a_status_is_written_once_and_leaves_other_controllers_words_alone(running: Fleet) -> None:
    foreign = {"parentRef": {"name": "x"}, "controllerName": "example.com/other", "conditions": []}
    await running.deploy()
    await until(lambda: _accepted(running, "control", "mock"))
    route = running.control.find("HTTPRoute", "mock", "ml-team")
    assert route is not None
    await running.control.put({**route, "status": {"parents": [foreign, *route["status"]["parents"]]}})
    await running.control.put(make.route("second", make.rule("/second", make.ref("mock-east"))))
    await until(lambda: _accepted(running, "control", "second"))
    writes = [path for method, path in running.control.requests if method == "PATCH"]
    assert writes.count("/apis/gateway.networking.k8s.io/v1/namespaces/ml-team/httproutes/mock/status") == 1
    route = running.control.find("HTTPRoute", "mock", "ml-team")
    assert route is not None
    assert foreign in route["status"]["parents"]


async def test_the_front_door_serves_while_both_apis_are_down_and_follows_them_afterwards(running: Fleet) -> None:
    await running.deploy()
    url = await running.url()
    await until(lambda: running.answers(url))
    await running.control.stop()
    await running.cluster.stop()
    assert all([await running.answers(url) for _ in range(20)])
    await running.control.start()
    await running.cluster.start()
    moved = make.route("mock", make.rule("/ml-team/moved/", make.ref("mock-east", "/ml-team/mock-east/")))
    await running.control.put(moved)
    await until(lambda: running.answers(url.replace("/mock", "/moved")))


async def test_killed_the_gateway_process_leaves_its_proxies_serving_and_adopts_them_when_it_is_back(
    running: Fleet,
) -> None:
    await running.deploy()
    url = await running.url()
    await until(lambda: running.answers(url))
    before = running.proxies()
    await running.kill()
    assert all([await running.answers(url) for _ in range(20)])
    # The APIs do not answer while it starts: an empty picture must not become an empty configuration.
    running.control.hang = running.cluster.hang = True
    await running.start()
    await until(lambda: (running.data / "lock").exists() and _asked(running))
    assert all([await running.answers(url) for _ in range(20)])
    running.control.hang = running.cluster.hang = False
    await running.control.disconnect()
    await running.cluster.disconnect()
    added = make.route("added", make.rule("/ml-team/added/", make.ref("mock-east", "/ml-team/mock-east/")))
    await running.control.put(added)
    await until(lambda: running.answers(url.replace("/mock", "/added")))
    assert running.proxies() == before
    assert await running.url() == url


def _asked(running: Fleet) -> bool:
    return bool(running.control._open) and bool(running.cluster._open)


async def test_an_error_of_the_gateway_process_leaves_its_proxies_serving(
    running: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    await running.deploy()
    url = await running.url()
    await until(lambda: running.answers(url))
    before = running.proxies()
    await running.kill()
    monkeypatch.setattr(running.cluster, "kubeconfig_text", lambda: "clusters: 1")
    await running.start()
    assert running.process is not None
    assert await running.process.wait() == 1
    assert running.proxies() == before
    assert await running.answers(url)


async def test_a_proxy_that_is_killed_costs_only_what_was_in_flight(running: Fleet) -> None:
    await running.deploy()
    url = await running.url()
    await until(lambda: running.answers(url))
    before = running.proxies()
    for record in before.values():
        os.kill(record.pid, signal.SIGKILL)
    await until(lambda: len(running.proxies()) == 2 and not set(running.proxies().values()) & set(before.values()))
    await until(lambda: running.answers(url))


async def test_told_to_stop_it_ends_its_proxies(running: Fleet) -> None:
    await running.deploy()
    await running.url()
    records = list(running.proxies().values())
    assert len(records) == 2
    assert await running.stop() == 0
    assert not any(record.alive for record in records)
    assert list((running.data / "run").glob("*.json")) == []


async def test_a_gateway_that_is_deleted_takes_its_proxy_with_it(running: Fleet) -> None:
    await running.deploy()
    await running.url()
    assert len(running.proxies()) == 2
    async with running.control.client() as client:
        from modelplane.api.meta import GVK

        await client.delete(GVK("gateway.networking.k8s.io", "v1", "Gateway"), "modelplane", NAMESPACE)
    await until(lambda: len(running.proxies()) == 1)
    (kept,) = running.proxies().values()
    assert kept.alive


async def test_a_second_process_on_one_data_directory_is_refused(running: Fleet) -> None:
    await running.deploy()
    await running.url()
    second = Fleet(running.directory, running.control, running.clusters, running.engines)
    await second.start()
    assert second.process is not None
    assert await second.process.wait() == 1
    assert "another gateway process serves" in (running.directory / "gateway.log").read_text()
    assert all(record.alive for record in running.proxies().values())


async def test_a_proxy_left_by_a_deleted_gateway_is_ended_by_the_next_start(running: Fleet) -> None:
    await running.deploy()
    await running.url()
    await running.kill()
    async with running.cluster.client() as client:
        from modelplane.api.meta import GVK

        await client.delete(GVK("gateway.networking.k8s.io", "v1", "Gateway"), "inference-gateway", NAMESPACE)
    assert len(running.proxies()) == 2
    await running.start()
    await until(lambda: len(running.proxies()) == 1)
    (kept,) = running.proxies().values()
    assert processes.start_time(kept.pid) == kept.started


async def test_under_steady_load_the_death_of_a_region_s_gateway_or_engine_fails_no_request(tmp_path: Path) -> None:
    async with fleet(tmp_path, "east", "west") as running:
        await running.deploy()
        url = await running.url()
        for region in ("east", "west"):
            await until(lambda region=region: _reaches(running, url, region))
        failed: list[object] = []
        done = asyncio.Event()
        answered = 0

        async def ask() -> None:
            nonlocal answered
            try:
                async with running.http.post(f"{url}/v1/chat/completions", data=b"{}") as response:
                    if response.status != 200:
                        failed.append((response.status, await response.text()))
            except aiohttp.ClientError as error:
                failed.append(error)
            answered += 1

        async def load() -> None:
            async with asyncio.TaskGroup() as group:
                while not done.is_set():
                    group.create_task(ask())
                    await asyncio.sleep(0.02)

        asking = asyncio.create_task(load())
        before = running.proxy("east")
        os.kill(before.pid, signal.SIGKILL)
        await until(lambda: before not in (now := running.proxies().values()) and len(now) == 3)
        await until(lambda: _reaches(running, url, "east"))
        east = running.engines["east"]
        await east.stop()
        mark = answered
        await until(lambda: answered > mark + 40)
        await east.start(east.port)
        await until(lambda: _reaches(running, url, "east"))
        done.set()
        await asking
        assert failed == []


async def _reaches(running: Fleet, url: str, region: str) -> bool:
    async with running.http.get(f"{url}/v1/models") as response:
        return response.status == 200 and (await response.json())["name"] == region
