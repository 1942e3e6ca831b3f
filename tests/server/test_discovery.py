"""What the server says about itself, to clients old and new."""

from __future__ import annotations

import gzip
import json

from tests.server.api import Api

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"


def test_aggregated_discovery_has_everything_in_two_answers(api: Api) -> None:
    reply = api.call("GET", "/apis", accept=AGGREGATED)
    assert reply.headers["content-type"] == "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    groups = {group["metadata"]["name"]: group for group in reply.body["items"]}
    ours = groups["modelplane.ai"]["versions"][0]
    deployment = next(r for r in ours["resources"] if r["resource"] == "modeldeployments")
    assert deployment["shortNames"] == ["md"]
    assert {below["subresource"] for below in deployment["subresources"]} == {"scale", "status"}
    scale = next(below for below in deployment["subresources"] if below["subresource"] == "scale")
    assert scale["responseKind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    core = api.call("GET", "/api", accept=AGGREGATED).body["items"]
    assert [group["versions"][0]["version"] for group in core] == ["v1"]


def test_plain_discovery_tells_the_same_step_by_step(api: Api) -> None:
    assert api.get("/api")["versions"] == ["v1"]
    names = [group["name"] for group in api.get("/apis")["groups"]]
    assert "apps" in names
    assert "modelplane.ai" in names
    assert api.get("/apis/modelplane.ai")["preferredVersion"]["groupVersion"] == "modelplane.ai/v1alpha1"
    resources = {r["name"]: r for r in api.get("/apis/modelplane.ai/v1alpha1")["resources"]}
    assert resources["modeldeployments/scale"]["kind"] == "Scale"
    assert resources["modeldeployments"]["namespaced"] is True


def test_a_newer_version_of_a_group_comes_first(api: Api) -> None:
    group = api.get("/apis/autoscaling")
    assert [version["version"] for version in group["versions"]] == ["v2", "v1"]


def test_openapi_has_an_index_with_hashes_and_compressed_documents(api: Api) -> None:
    paths = api.get("/openapi/v3")["paths"]
    url = paths["apis/modelplane.ai/v1alpha1"]["serverRelativeURL"]
    assert "hash=" in url
    plain = api.get(url)
    kinds = {
        gvk["kind"]
        for schema in plain["components"]["schemas"].values()
        for gvk in schema.get("x-kubernetes-group-version-kind", ())
    }
    assert "ModelDeployment" in kinds
    connection = api.connect()
    try:
        headers = {"Authorization": f"Bearer {api.token}", "Accept-Encoding": "gzip"}
        connection.request("GET", url, headers=headers)
        response = connection.getresponse()
        assert response.getheader("Content-Encoding") == "gzip"
        assert json.loads(gzip.decompress(response.read())) == plain
    finally:
        connection.close()


def test_health_has_three_names(api: Api) -> None:
    for path in ("/healthz", "/livez", "/readyz", "/readyz?verbose"):
        assert api.call("GET", path).body == "ok"


def test_a_head_request_gets_the_headers_of_a_get(api: Api) -> None:
    reply = api.call("HEAD", "/api/v1/namespaces/default", accept="text/html,*/*")
    assert reply.code == 200
    assert int(reply.headers["content-length"]) > 0
