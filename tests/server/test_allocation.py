"""Addresses and node ports of services: nobody gets what another has, however many ask at once."""

from __future__ import annotations

import asyncio
import ipaddress
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from modelplane.server.app import ApiServer, Options, start
from modelplane.server.behaviours import services
from tests.server.api import Api, Reply, config_map

SERVICES = "/api/v1/namespaces/default/services"
MANY = 10


@pytest_asyncio.fixture
async def server(tmp_path: Path) -> AsyncIterator[ApiServer]:
    running = await start(Options(tmp_path, install_crds=False))
    yield running
    await running.stop()


async def ask(server: ApiServer, method: str, path: str, body: object = None) -> Reply:
    """One request over a connection of its own, from a thread: the server runs in this event loop."""
    return await asyncio.to_thread(lambda: Api(server.kubeconfig).call(method, path, body))


async def at_once(server: ApiServer, bodies: Iterable[Any], path: str = SERVICES) -> list[Reply]:
    """Every body created, all in flight together."""
    return list(await asyncio.gather(*(ask(server, "POST", path, body) for body in bodies)))


def service(name: str, *, type_: str = "ClusterIP", node_port: int = 0, **spec: object) -> dict[str, Any]:
    port = {"port": 80, **({"nodePort": node_port} if node_port else {})}
    return {"metadata": {"name": name}, "spec": {"type": type_, "ports": [port], **spec}}


async def test_services_created_at_once_share_no_address(server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    small = ipaddress.IPv4Network(
        "10.96.0.0/23"
    )  # 254 addresses past the reserved ones; ten draws meet one time in six
    monkeypatch.setattr(services, "RANGE", small)
    for _ in range(4):
        first = len((await ask(server, "GET", SERVICES)).body["items"])
        replies = await at_once(server, (service(f"s{first + n}") for n in range(MANY)))
        assert {reply.code for reply in replies} == {201}
    items = (await ask(server, "GET", SERVICES)).body["items"]
    taken = Counter(item["spec"]["clusterIP"] for item in items)
    assert len(taken) == len(items) == 4 * MANY + 1


async def test_services_created_at_once_share_no_node_port(server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "NODE_PORTS", range(30000, 30000 + MANY))
    replies = await at_once(server, (service(f"s{n}", type_="NodePort") for n in range(MANY)))
    assert sorted(reply.body["spec"]["ports"][0]["nodePort"] for reply in replies) == list(range(30000, 30000 + MANY))
    [without] = await at_once(server, [service("late", type_="NodePort")])
    assert (without.code, without.body["message"]) == (
        500,
        "Internal error occurred: no node port is free; delete services",
    )


@pytest.mark.parametrize(
    ("asked", "field"),
    [({"clusterIP": "10.96.9.9"}, "spec.clusterIPs"), ({"type_": "NodePort", "node_port": 30303}, "nodePort")],
    ids=["address", "node port"],
)
async def test_of_many_who_ask_for_the_same_one_gets_it(server: ApiServer, asked: Any, field: str) -> None:
    replies = await at_once(server, (service(f"s{n}", **asked) for n in range(MANY)))
    assert Counter(reply.code for reply in replies) == {201: 1, 422: MANY - 1}
    refusal = next(reply.body["message"] for reply in replies if reply.code == 422)
    assert field in refusal
    assert "is already allocated" in refusal
    [winner] = [reply.body for reply in replies if reply.code == 201]
    place = f"{SERVICES}/{winner['metadata']['name']}"
    assert (await ask(server, "PUT", place, winner)).code == 200, "it keeps what it has"
    await ask(server, "DELETE", place)
    [again] = await at_once(server, [service("again", **asked)])
    assert again.code == 201, "what a deleted service had is free"


async def test_nothing_comes_into_a_namespace_behind_its_deletion(server: ApiServer) -> None:
    """Whatever is there afterwards was there when the deletion was written: its revision is lower."""
    for number in range(5):
        namespace = f"n{number}"
        await ask(server, "POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        maps = f"/api/v1/namespaces/{namespace}/configmaps"
        remove = ask(server, "DELETE", f"/api/v1/namespaces/{namespace}")
        made, gone = await asyncio.gather(
            at_once(server, (config_map(f"m{n}", namespace) for n in range(MANY)), maps), remove
        )
        end = int(gone.body["metadata"]["resourceVersion"])
        assert all(int(one.body["metadata"]["resourceVersion"]) < end for one in made if one.code == 201)
        assert {one.code for one in made} <= {201, 403}
