"""What callers see of failures behind a real Envoy: nothing, as long as another endpoint can answer."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from tests.gateway import objects as make
from tests.gateway.backends import Backend
from tests.gateway.rig import NODE, Rig, rig, until

PATH = "/ml-team/mock/v1/chat"
POOL_REF = {"group": "inference.networking.k8s.io", "kind": "InferencePool", "name": "p"}


@pytest.fixture
async def proxy(tmp_path: Path):
    async with rig(tmp_path) as made:
        yield made


@pytest.fixture
async def pair():
    backends = [await Backend("a").start(), await Backend("b").start()]
    yield backends
    for backend in backends:
        await backend.stop()


def two_regions(a: Backend, b: Backend, health: str = "/health"):
    return [
        make.route("mock", make.rule("/ml-team/mock/", make.ref("a", "/r/one/"), make.ref("b", "/r/two/"))),
        *make.service("a", ("127.0.0.1", a.port), health=health),
        *make.service("b", ("127.0.0.1", b.port), health=health),
    ]


async def test_an_endpoint_that_dies_between_two_requests_costs_none(proxy: Rig, pair: list[Backend]) -> None:
    a, b = pair
    await proxy.publish(two_regions(a, b))
    await proxy.answered(PATH, "ab")
    await a.stop()
    assert await proxy.names(PATH, 30) == ["b"] * 30
    await a.start(a.port)
    await proxy.answered(PATH, "ab")


async def test_without_a_health_path_the_first_failed_call_takes_an_endpoint_out(
    proxy: Rig, pair: list[Backend]
) -> None:
    a, b = pair
    await proxy.publish(two_regions(a, b, health=""))
    await proxy.answered(PATH, "ab")
    await a.stop()
    assert await proxy.names(PATH, 30) == ["b"] * 30


async def test_each_endpoint_is_asked_for_its_own_health_through_its_own_prefix(
    proxy: Rig, pair: list[Backend]
) -> None:
    a, b = pair
    await proxy.publish(two_regions(a, b))
    await proxy.answered(PATH, "ab")
    assert set(a.checks) == {"/r/one/health"}
    assert set(b.checks) == {"/r/two/health"}


async def test_a_failed_health_check_takes_an_endpoint_out_without_a_failed_call(
    proxy: Rig, pair: list[Backend]
) -> None:
    a, b = pair
    await proxy.publish(two_regions(a, b))
    await proxy.answered(PATH, "ab")
    a.healthy = lambda path: False
    await proxy.answered(PATH, "b")
    a.healthy = lambda path: True
    await proxy.answered(PATH, "ab")


async def test_when_no_endpoint_is_healthy_the_answer_is_503_at_once_and_no_endpoint_is_asked(
    proxy: Rig, pair: list[Backend]
) -> None:
    a, b = pair
    await proxy.publish(two_regions(a, b))
    await proxy.answered(PATH, "ab")
    for backend in pair:
        backend.healthy = lambda path: False
    await proxy.answered(PATH, ["503"])
    for backend in pair:
        backend.seen.clear()
    status, body, headers = await proxy.get(PATH)
    assert (status, body["error"]["code"], headers["Retry-After"]) == (503, "no_ready_endpoint", "1")
    assert a.seen == b.seen == []


async def test_a_new_endpoint_gets_requests_only_once_it_is_healthy(proxy: Rig, pair: list[Backend]) -> None:
    a, b = pair
    b.healthy = lambda path: False
    await proxy.publish(two_regions(a, b))
    await proxy.answered(PATH, "a")
    assert b.seen == []
    b.healthy = lambda path: True
    await proxy.answered(PATH, "ab")


async def test_the_only_endpoint_stays_in_after_a_call_that_it_refused(proxy: Rig, pair: list[Backend]) -> None:
    a, _ = pair
    only = make.route("mock", make.rule("/ml-team/mock/", make.ref("a", "/r/one/")))
    await proxy.publish(only, make.service("a", ("127.0.0.1", a.port)))
    a.status = 503
    assert await proxy.names(PATH, 1) == ["503"]
    a.status = 200
    assert await proxy.names(PATH, 1) == ["a"]


async def test_a_stream_is_not_buffered_and_outlives_every_change_of_configuration(
    proxy: Rig, pair: list[Backend]
) -> None:
    a, b = pair
    first = make.rule("/ml-team/mock/", make.ref("a", "/r/one/"))
    await proxy.publish(make.route("mock", first), make.service("a", ("127.0.0.1", a.port), health="/health"))
    await proxy.answered(PATH, "a")
    async with proxy.http.get(f"{proxy.url}/ml-team/mock/v1/stream") as response:
        assert await response.content.readuntil(b"\n\n") == b"data: first\n\n"
        second = make.rule("/ml-team/mock/", make.ref("b", "/r/two/"))
        await proxy.publish(make.route("mock", second), make.service("b", ("127.0.0.1", b.port), health="/health"))
        await proxy.answered(PATH, "b")
        await proxy.publish()
        assert (await proxy.get(PATH))[0] == 404
        a.gate.set()
        assert await response.content.read() == b"data: last\n\n"


async def test_a_pool_sends_to_the_pod_with_the_fewest_requests(proxy: Rig, pair: list[Backend]) -> None:
    pods = [make.pod(backend.name, host_port=f"127.0.0.1:{backend.port}", serving="p") for backend in pair]
    await proxy.publish(make.route("mock", make.rule("/ml-team/mock/", POOL_REF)), make.pool("p", serving="p"), *pods)
    await proxy.answered(PATH, "ab")
    for backend in pair:
        backend.seen.clear()
    async with proxy.http.get(f"{proxy.url}/ml-team/mock/v1/stream") as response:
        await response.content.readuntil(b"\n\n")
        busy = next(backend for backend in pair if backend.seen)
        (idle,) = (backend for backend in pair if backend is not busy)
        assert await proxy.names(PATH, 10) == [idle.name] * 10
        busy.gate.set()
        await response.content.read()


async def test_a_pool_s_503_is_passed_on_and_a_lost_engine_is_tried_elsewhere(proxy: Rig, pair: list[Backend]) -> None:
    pods = [make.pod(backend.name, host_port=f"127.0.0.1:{backend.port}", serving="p") for backend in pair]
    await proxy.publish(make.route("mock", make.rule("/ml-team/mock/", POOL_REF)), make.pool("p", serving="p"), *pods)
    await proxy.answered(PATH, "ab")
    for backend in pair:
        backend.seen.clear()
        backend.status = 503
    assert await proxy.names(PATH, 1) == ["503"]
    assert len(pair[0].seen) + len(pair[1].seen) == 1
    for backend in pair:
        backend.status = 200
    await proxy.answered(PATH, "ab")
    await pair[0].stop()
    assert await proxy.names(PATH, 20) == ["b"] * 20


async def test_a_proxy_that_is_killed_comes_back_on_its_port_with_its_configuration(
    proxy: Rig, pair: list[Backend]
) -> None:
    a, b = pair
    await proxy.publish(two_regions(a, b))
    await proxy.answered(PATH, "ab")
    before = proxy.process.record
    assert before is not None
    os.kill(before.pid, signal.SIGKILL)
    await until(lambda: proxy.process.record is not None and proxy.process.record.pid != before.pid)

    async def serving() -> bool:
        try:
            return (await proxy.get(PATH))[0] == 200
        except OSError:
            return False

    await until(serving)
    await proxy.answered(PATH, "ab")


async def test_the_proxy_serves_on_when_its_configuration_server_is_gone_and_follows_a_new_one(
    proxy: Rig, pair: list[Backend]
) -> None:
    from modelplane.gateway.xds.server import Server

    a, b = pair
    await proxy.publish(two_regions(a, b))
    await proxy.answered(PATH, "ab")
    await proxy.server.stop()
    assert set(await proxy.names(PATH, 6)) == {"a", "b"}
    asked = asyncio.Event()
    proxy.server = Server(proxy.server.socket, lambda node: proxy.changed.set())
    await proxy.server.start()
    # Connected again, but nothing is known yet: an answer now could only take everything away.
    await until(lambda: bool(proxy.server.proxy(NODE).streams))
    assert set(await proxy.names(PATH, 6)) == {"a", "b"}
    await proxy.publish(two_regions(a, a))
    await proxy.answered(PATH, "a")
    asked.set()
