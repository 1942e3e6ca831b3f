"""Stored objects become types, whichever of two shapes they have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from modelplane.api import (
    inference_class,
    inference_cluster,
    inference_gateway,
    model_deployment,
    model_endpoint,
    model_service,
)
from modelplane.api.meta import GVK
from modelplane.errors import InvalidObject

EXAMPLE = Path(__file__).parents[2] / "examples" / "two-regions"
READERS = {
    module.KIND: module.parse
    for module in (inference_class, inference_cluster, inference_gateway, model_deployment, model_service)
}


def endpoint(spec: dict[str, Any]) -> model_endpoint.ModelEndpoint:
    return model_endpoint.parse({"metadata": {"name": "e", "namespace": "n"}, "spec": spec})


def test_every_manifest_of_the_example_is_read() -> None:
    seen = []
    for file in sorted(EXAMPLE.glob("*.yaml")):
        for obj in yaml.safe_load_all(file.read_text()):
            value = READERS[GVK.of(obj)](obj)
            assert value.metadata.name == obj["metadata"]["name"]
            seen.append(obj["kind"])
    assert seen == [
        "InferenceGateway",
        "InferenceClass",
        "InferenceCluster",
        "InferenceCluster",
        "ModelDeployment",
        "ModelService",
    ]


def test_unknown_fields_are_passed_over_because_a_newer_server_may_have_written_them() -> None:
    value = endpoint({"url": "http://a", "later": {"x": 1}})
    assert value.spec.url == "http://a"


def test_a_field_that_does_not_fit_is_named_with_the_object() -> None:
    with pytest.raises(InvalidObject, match=r"ModelDeployment n/d: .*spec\.replicas"):
        model_deployment.parse(
            {
                "kind": "ModelDeployment",
                "metadata": {"name": "d", "namespace": "n"},
                "spec": {"replicas": -1, "template": {"spec": {"engines": []}}},
            }
        )


@pytest.mark.parametrize(
    ("spec", "want", "reason"),
    [
        (
            {"url": "http://h/x/v1"},
            ("http", "h", 80, "/", "/v1"),
            "the older shape has port 80 and no rewrite of its own",
        ),
        (
            {"url": "http://10.0.0.7:8080/n/r/v1", "rewritePath": "/n/r/"},
            ("http", "10.0.0.7", 8080, "/n/r/", "/n/r/v1"),
            "a composed endpoint names its replica's path",
        ),
        (
            {"url": "https://api.example.com/openai/v1", "rewritePath": "/openai/"},
            ("https", "api.example.com", 443, "/openai/", "/openai/v1"),
            "a provider below a path",
        ),
        ({"url": "http://[fd00::1]:81/v1"}, ("http", "fd00::1", 81, "/", "/v1"), "IPv6 loses its brackets"),
        (
            {"origin": "https://api.example.com"},
            ("https", "api.example.com", 443, "/", "/v1"),
            "the current shape has a default prefix",
        ),
        (
            {"origin": "https://h:8443", "api": {"prefix": "/openai/v1/"}},
            ("https", "h", 8443, "/openai/", "/openai/v1"),
            "a prefix that ends in v1 works for path addressing too",
        ),
        (
            {"origin": "https://h", "api": {"prefix": "/api"}},
            ("https", "h", 443, None, "/api"),
            "a prefix without v1 can only replace the API's own prefix",
        ),
    ],
)
def test_both_shapes_of_an_endpoint_have_one_target(spec: dict[str, Any], want: tuple[Any, ...], reason: str) -> None:
    target = endpoint(spec).spec.target
    assert (target.scheme, target.host, target.port, target.rewrite_path, target.prefix) == want, reason


@pytest.mark.parametrize(
    "url", ["no-scheme/v1", "ftp://h", "http://", "http://h:x", "http://h:99999", "http://h:0", "http://[::1"]
)
def test_a_url_that_cannot_be_used_is_quoted(url: str) -> None:
    with pytest.raises(model_endpoint.InvalidUrl) as caught:
        _ = endpoint({"url": url}).spec.target
    assert repr(url) in str(caught.value)


def test_entries_without_a_name_get_the_name_of_their_position() -> None:
    selector = {"matchLabels": {"a": "b"}}
    service = model_service.parse(
        {
            "metadata": {"name": "s"},
            "spec": {
                "endpoints": [{"selector": selector}, {"name": "entry-2", "selector": selector}, {"selector": selector}]
            },
        }
    )
    assert [entry.name for entry in service.spec.endpoints] == ["entry-0", "entry-2", "entry-2-unnamed"]


def test_a_service_has_no_total_timeout_unless_it_asks_for_one() -> None:
    entry = {"selector": {"matchLabels": {"a": "b"}}}
    silent = model_service.parse({"metadata": {"name": "s"}, "spec": {"endpoints": [entry]}})
    asked = model_service.parse(
        {"metadata": {"name": "s"}, "spec": {"endpoints": [entry], "timeouts": {"request": "5m"}}}
    )
    assert silent.spec.timeouts is None
    assert asked.spec.timeouts == model_service.Timeouts(request="5m", idle="60s")
