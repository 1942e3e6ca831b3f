"""What the server says about itself, to clients old and new."""

from __future__ import annotations

import gzip
import json

import pytest

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
    for path in ("/healthz", "/livez", "/readyz", "/readyz/etcd", "/readyz?exclude=ping"):
        assert api.call("GET", path).body == "ok"
    assert api.call("GET", "/readyz?verbose").body == "[+]ping ok\n[+]etcd ok\nreadyz check passed\n"
    told = api.call("GET", "/livez?verbose&exclude=ping&exclude=none").body
    assert told.startswith("[+]ping excluded: ok\n[+]etcd ok\nwarn: some health checks cannot be excluded")
    assert api.call("GET", "/readyz/none").code == 404


def test_the_first_page_names_every_path(api: Api) -> None:
    paths = api.get("/")["paths"]
    assert {"/apis/apps/v1", "/apis/modelplane.ai/v1alpha1", "/readyz/etcd", "/openapi/v2", "/version"} <= set(paths)
    assert all(api.call("GET", path).code == 200 for path in paths)


def test_a_head_request_gets_the_headers_of_a_get(api: Api) -> None:
    reply = api.call("HEAD", "/api/v1/namespaces/default", accept="text/html,*/*")
    assert reply.code == 200
    assert int(reply.headers["content-length"]) > 0


SWAGGER = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
FORMS = {
    "protobuf": (SWAGGER, "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"),
    "new-protobuf": (SWAGGER.replace("@", "."), "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"),
    "json": ("application/json", "application/json"),
    "anything": ("*/*", "application/json"),
    "preferred": (
        f"application/json;q=0.5, {SWAGGER};q=0.9",
        "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
    ),
    "second": ("text/html, application/*;q=0.1", "application/json"),
    "none": ("text/html", ""),
}


def asked(api: Api, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    connection = api.connect()
    try:
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request("GET", path, headers={"Authorization": f"Bearer {api.token}", **names})
        response = connection.getresponse()
        return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
    finally:
        connection.close()


@pytest.mark.parametrize(("accept", "kind"), FORMS.values(), ids=FORMS.keys())
def test_openapi_v2_comes_in_the_form_that_a_client_prefers(api: Api, accept: str, kind: str) -> None:
    code, headers, body = asked(api, "/openapi/v2", Accept=accept)
    assert (code, headers.get("content-type", "")) == (200 if kind else 406, kind)
    if kind == "application/json":
        assert "ai.modelplane.v1alpha1.ModelService" in json.loads(body)["definitions"]


DOCUMENTS = ["/openapi/v2", "/openapi/v3/apis/apps/v1", "/apis"]


@pytest.mark.parametrize("path", DOCUMENTS)
def test_a_client_that_has_a_document_is_told_so_and_no_more(api: Api, path: str) -> None:
    kind = AGGREGATED if path == "/apis" else "*/*"
    code, headers, body = asked(api, path, Accept=kind)
    assert (code, bool(body)) == (200, True)
    for held in (headers["etag"], f'"other", W/{headers["etag"]}'):
        code, told, body = asked(api, path, Accept=kind, If_None_Match=held)
        assert (code, told["etag"], body) == (304, headers["etag"], b"")
        assert "content-type" not in told, "a client would take it for the type of what it has"
    assert asked(api, path, Accept=kind, If_None_Match='"other"')[0] == 200


def test_documents_follow_the_kinds_that_are_defined(api: Api) -> None:
    before = {path: asked(api, path, Accept=AGGREGATED if path == "/apis" else "*/*")[1]["etag"] for path in DOCUMENTS}
    names = {"plural": "gears", "singular": "gear", "kind": "Gear", "listKind": "GearList"}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"teeth": {"type": "integer"}}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "gears.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]},
    }
    api.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
    properties = api.get("/openapi/v2")["definitions"]["com.example.v1.Gear"]["properties"]
    assert properties["teeth"] == {"type": "integer"}
    after = {path: asked(api, path, Accept=AGGREGATED if path == "/apis" else "*/*")[1]["etag"] for path in DOCUMENTS}
    assert {path for path in DOCUMENTS if before[path] == after[path]} == {"/openapi/v3/apis/apps/v1"}


def test_an_old_address_of_a_document_leads_to_the_new_one(api: Api) -> None:
    path = "/openapi/v3/apis/apps/v1"
    now = api.get("/openapi/v3")["paths"]["apis/apps/v1"]["serverRelativeURL"]
    code, headers, _ = asked(api, f"{path}?hash=0")
    assert (code, headers["location"]) == (301, now)
    code, headers, _ = asked(api, now)
    assert (code, headers["cache-control"]) == (200, "public, immutable")
    assert "expires" in headers
    assert asked(api, path, Accept="application/com.github.proto-openapi.spec.v3@v1.0+protobuf")[0] == 406
