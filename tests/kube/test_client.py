"""What the client makes of a server's answers, and of a server that does not answer."""

from __future__ import annotations

import asyncio

import pytest

from modelplane import errors
from modelplane.api.meta import GVK, Object
from modelplane.kube import Client, Kubeconfig
from modelplane.kube.resources import KNOWN, plural
from modelplane.kube.status import error_of
from tests.kube.fake_api import FakeApi


def config_map(name: str, **labels: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "data": {},
    }


CONFIG_MAP = GVK("", "v1", "ConfigMap")


async def test_an_object_goes_through_its_life_as_a_dictionary() -> None:
    async with FakeApi() as api, api.client() as client:
        created = await client.create(config_map("a"))
        assert created["metadata"]["uid"]
        applied = await client.apply({**config_map("a"), "data": {"k": "v"}})
        assert applied["data"] == {"k": "v"}
        await client.patch(CONFIG_MAP, "a", "default", {"data": {"k": "w"}})
        assert (await client.get(CONFIG_MAP, "a", "default"))["data"] == {"k": "w"}
        with pytest.raises(errors.Conflict):
            await client.delete(CONFIG_MAP, "a", "default", uid="another")
        await client.delete(CONFIG_MAP, "a", "default", uid=created["metadata"]["uid"])
        with pytest.raises(errors.NotFound):
            await client.get(CONFIG_MAP, "a", "default")


async def test_items_of_a_list_say_what_they_are_even_when_the_server_leaves_it_out() -> None:
    async with FakeApi() as api, api.client() as client:
        await client.create(config_map("a", team="x"))
        await client.create(config_map("b", team="y"))
        answer = await client.list(CONFIG_MAP, labels={"team": "x"})
        assert [(item["kind"], item["apiVersion"], item["metadata"]["name"]) for item in answer.items] == [
            ("ConfigMap", "v1", "a")
        ]
        assert int(answer.resource_version) >= 2


@pytest.mark.parametrize(
    ("code", "reason", "want"),
    [
        (400, "BadRequest", errors.Invalid),
        (401, "Unauthorized", errors.Unauthorized),
        (403, "Forbidden", errors.Forbidden),
        (404, "NotFound", errors.NotFound),
        (409, "Conflict", errors.Conflict),
        (409, "AlreadyExists", errors.AlreadyExists),
        (410, "Expired", errors.Gone),
        (422, "Invalid", errors.Invalid),
        (429, "TooManyRequests", errors.Throttled),
        (503, "ServiceUnavailable", errors.ServerFailure),
    ],
)
def test_each_status_has_its_own_exception(code: int, reason: str, want: type[Exception]) -> None:
    body = f'{{"kind":"Status","reason":"{reason}","message":"because"}}'.encode()
    error = error_of(code, body, where="GET /x")
    assert type(error) is want
    assert str(error) == "because (GET /x)"


def test_an_answer_that_is_no_status_is_quoted() -> None:
    error = error_of(502, b"<html>Bad Gateway</html>", where="GET /x")
    assert isinstance(error, errors.ServerFailure)
    assert "Bad Gateway" in str(error)


def test_field_errors_and_retry_hints_survive() -> None:
    body = (
        b'{"message":"m","details":{"retryAfterSeconds":7,"causes":[{"field":"spec.replicas","message":"too many"}]}}'
    )
    error = error_of(422, body, where="x")
    assert error.causes == (("spec.replicas", "too many"),)
    assert error.after == 7


async def test_nothing_listening_is_unreachable_and_says_where() -> None:
    async with Client(Kubeconfig(server="http://127.0.0.1:1")) as client:
        with pytest.raises(errors.Unreachable, match=r"127\.0\.0\.1:1/version"):
            await client.request("GET", "/version")


async def test_a_server_that_never_answers_is_unreachable_after_the_limit() -> None:
    async with FakeApi() as api, api.client(timeout=0.1) as client:
        api.hang = True
        with pytest.raises(errors.Unreachable, match="no answer in time"):
            await client.get(CONFIG_MAP, "a", "default")


async def test_a_kind_outside_the_table_is_discovered_once() -> None:
    async with FakeApi() as api, api.client() as client:
        toy = GVK("toys.example.com", "v1", "Toy")
        api.serve_kind(toy, namespaced=False)
        for _ in range(2):
            resource = await client.resource_for(toy)
            assert (resource.plural, resource.namespaced) == ("toys", False)
        assert api.requests.count(("GET", "/apis/toys.example.com/v1")) == 1
        with pytest.raises(errors.NotFound, match="install its CRD"):
            await client.resource_for(GVK("toys.example.com", "v1", "Puzzle"))


HTTP_ROUTE = GVK("gateway.networking.k8s.io", "v1", "HTTPRoute")


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (HTTP_ROUTE, "does not serve HTTPRoute of gateway.networking.k8s.io/v1; install the CRDs of Gateway API: "),
        (GVK("metallb.io", "v1beta1", "IPAddressPool"), "does not serve IPAddressPool of metallb.io/v1beta1; install"),
        (GVK("modelplane.ai", "v1alpha1", "ModelDeployment"), "; install Modelplane's definitions: kubectl apply"),
        (GVK("resource.k8s.io", "v1", "ResourceClaim"), "; it needs Kubernetes 1.34 or later"),
        (GVK("", "v1", "ConfigMap"), "does not serve ConfigMap of v1; is this the address of a Kubernetes API server?"),
    ],
    ids=lambda value: getattr(value, "kind", ""),
)
async def test_a_kind_that_a_server_has_never_heard_of_is_named_with_what_brings_it(kind: GVK, words: str) -> None:
    """`404 page not found` says neither, and whichever way the kind is asked for, it is the same sentence."""
    obj = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "a", "namespace": "ns"}}
    async with FakeApi() as api, api.client() as client:
        api.unserved = {kind.group}

        async def watch() -> None:
            async for _ in client.watch(await client.resource_for(kind)):
                pass

        asked = [
            client.apply(obj),
            client.get(kind, "a", "ns"),
            client.list(kind),
            client.delete(kind, "a", "ns"),
            watch(),
        ]
        for answer in await asyncio.gather(*asked, return_exceptions=True):
            assert isinstance(answer, errors.NotFound)
            assert words in str(answer)
            assert f"127.0.0.1:{api.port}" in str(answer), "which of many servers"


async def test_an_object_that_is_not_there_is_no_missing_kind() -> None:
    async with FakeApi() as api, api.client() as client:
        with pytest.raises(errors.NotFound, match=r"^a not found"):
            await client.get(HTTP_ROUTE, "a", "ns")


async def test_callers_that_ask_for_a_sign_of_life_together_share_one_request() -> None:
    async with FakeApi() as api, api.client() as client:
        await asyncio.gather(*(client.check() for _ in range(5)))
        assert api.requests == [("GET", "/version")]
        await client.check(60)
        assert len(api.requests) == 1, "a fresh contact needs no ping"


def test_plurals_are_those_of_the_api() -> None:
    assert {
        kind: plural(kind) for kind in ("InferenceClass", "GatewayClass", "Endpoints", "Ingress", "NetworkPolicy")
    } == {
        "InferenceClass": "inferenceclasses",
        "GatewayClass": "gatewayclasses",
        "Endpoints": "endpoints",
        "Ingress": "ingresses",
        "NetworkPolicy": "networkpolicies",
    }
    assert KNOWN[GVK("modelplane.ai", "v1alpha1", "ModelCache")].path("a", "b", "status") == (
        "/apis/modelplane.ai/v1alpha1/namespaces/a/modelcaches/b/status"
    )
