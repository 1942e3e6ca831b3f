"""Reading HTTPRoutes: every field is understood, or named in the reason why the route is not accepted."""

from __future__ import annotations

import pytest

from modelplane.gateway import httproutes
from modelplane.gateway.backends import Backends
from modelplane.gateway.model import HeaderEdit, Match, PathKind, Rewrite, RewriteKind
from tests.gateway import objects as make

KINDS = ("Service", "EndpointSlice")
BACKENDS = Backends(*[[obj for obj in make.service("a", ("10.0.0.1", 8000)) if obj["kind"] == kind] for kind in KINDS])


def read(*rules, **spec):
    return httproutes.read(make.route("mock", *rules, **spec), BACKENDS.resolve)


REFUSED = {
    "a regular expression as path": (
        {"matches": [{"path": {"type": "RegularExpression", "value": "/a.*"}}]},
        "spec.rules[0].matches[0].path.type",
        "engines differ in regular expressions; the reader must know that it does not match",
    ),
    "a mirror": (
        {"filters": [{"type": "RequestMirror", "requestMirror": {}}]},
        "spec.rules[0].filters[0].type: RequestMirror",
        "a filter that is not carried out changes what the author wanted",
    ),
    "an experimental retry": ({"retry": {"attempts": 2}}, "spec.rules[0].retry", "unknown fields are never ignored"),
    "session persistence": (
        {"sessionPersistence": {}},
        "spec.rules[0].sessionPersistence",
        "unknown fields are never ignored",
    ),
    "a header pattern": (
        {"matches": [{"headers": [{"type": "RegularExpression", "name": "a", "value": "b"}]}]},
        "spec.rules[0].matches[0].headers[0].type",
        "exact matches only",
    ),
    "a prefix rewrite of an exact path": (
        {"matches": [{"path": {"type": "Exact", "value": "/a"}}], "filters": [make.rewrite("/b")]},
        "ReplacePrefixMatch needs",
        "there is no prefix to replace",
    ),
    "two rewrites of one path": (
        {"filters": [make.rewrite("/b")], "backendRefs": [make.ref("a", "/c")]},
        "keep one of the two",
        "which one wins would be a guess",
    ),
    "headers per backend": (
        {
            "backendRefs": [
                {
                    **make.ref("a"),
                    "filters": [{"type": "RequestHeaderModifier", "requestHeaderModifier": {"remove": ["a"]}}],
                }
            ]
        },
        "header modifiers belong in spec.rules[0].filters",
        "all endpoints share one set of headers across retries",
    ),
    "a header that may not be edited": (
        {
            "filters": [
                {"type": "RequestHeaderModifier", "requestHeaderModifier": {"set": [{"name": "Host", "value": "x"}]}}
            ]
        },
        "'host' may not be changed",
        "Envoy refuses it, and would refuse every other route with it",
    ),
    "a header name that is none": (
        {"matches": [{"headers": [{"name": "bad name", "value": "1"}]}]},
        "'bad name' is no header name",
        "Envoy refuses it, and would refuse every other route with it",
    ),
    "a line break in a header": (
        {
            "filters": [
                {"type": "RequestHeaderModifier", "requestHeaderModifier": {"add": [{"name": "a", "value": "b\nc"}]}}
            ]
        },
        "has a control character",
        "it could smuggle a header past the gateway",
    ),
    "a duration in words": (
        {"timeouts": {"request": "soon"}},
        "not a duration such as 90s",
        "a typing mistake is named",
    ),
    "a path with a query": (
        {"matches": [{"path": {"type": "PathPrefix", "value": "/a?b"}}]},
        "must start with / and have no ? or #",
        "Envoy refuses it, and would refuse every other route with it",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_route_with_a_field_that_is_not_carried_out_is_refused_by_that_field_s_name(case: str) -> None:
    rule, words, reason = REFUSED[case]
    result = read(rule)
    assert result.route is None, reason
    assert result.refused is not None
    assert result.refused.reason == "UnsupportedValue"
    assert words in result.refused.message, reason


def test_a_rule_is_read_whole() -> None:
    result = read(
        {
            "name": "chat",
            "matches": [
                {
                    "path": {"type": "PathPrefix", "value": "/ml-team/mock/"},
                    "method": "POST",
                    "headers": [{"name": "X-Team", "value": "a"}],
                    "queryParams": [{"name": "beta", "value": "1"}],
                }
            ],
            "filters": [
                {
                    "type": "RequestHeaderModifier",
                    "requestHeaderModifier": {"set": [{"name": "A", "value": "1"}], "remove": ["B"]},
                },
                {"type": "ResponseHeaderModifier", "responseHeaderModifier": {"add": [{"name": "C", "value": "2"}]}},
            ],
            "backendRefs": [make.ref("a", "/x/", weight=3)],
            "timeouts": {"request": "1m30s", "backendRequest": "500ms"},
        }
    )
    assert result.route is not None
    (rule,) = result.route.rules
    assert rule.matches == (
        Match("/ml-team/mock", PathKind.PREFIX, "POST", headers=(("x-team", "a"),), query=(("beta", "1"),)),
    )
    assert (rule.timeout, rule.backend_timeout) == (90, 0.5)
    assert rule.request_headers == HeaderEdit(set=(("a", "1"),), remove=("b",))
    assert rule.response_headers == HeaderEdit(add=(("c", "2"),))
    (backend,) = rule.backends
    assert backend.rewrite == Rewrite("", RewriteKind.PREFIX, "/x/")
    assert backend.weight == 3
    assert [(endpoint.address, endpoint.port) for endpoint in backend.endpoints] == [("10.0.0.1", 8000)]


@pytest.mark.parametrize(
    ("text", "seconds", "reason"),
    [
        ("0s", None, "zero means no limit"),
        ("1h", 3600.0, "hours"),
        ("1m30s", 90.0, "parts add up"),
        ("250ms", 0.25, "milliseconds are not minutes"),
    ],
)
def test_a_duration_is_read_as_gateway_api_writes_it(text: str, seconds: float | None, reason: str) -> None:
    assert httproutes.duration(text) == seconds, reason


def test_no_timeout_is_set_by_default() -> None:
    result = read(make.rule("/a", make.ref("a")))
    assert result.route is not None
    assert result.route.rules[0].timeout is None


UNRESOLVED = {
    "a Service that is not there": (make.ref("b"), "BackendNotFound", "there is no Service ml-team/b"),
    "a port that the Service lacks": (make.ref("a", port=81), "BackendNotFound", "has no port 81; it has 80"),
    "a Service of another team": ({**make.ref("a"), "namespace": "other"}, "RefNotPermitted", "keep the route beside"),
    "a kind that cannot serve": ({"group": "apps", "kind": "Deployment", "name": "a"}, "InvalidKind", "not Deployment"),
    "a pool that is not there": (
        {"group": "inference.networking.k8s.io", "kind": "InferencePool", "name": "p"},
        "BackendNotFound",
        "there is no InferencePool ml-team/p",
    ),
}


@pytest.mark.parametrize("case", UNRESOLVED)
def test_a_reference_that_leads_nowhere_is_named_and_the_other_backends_serve(case: str) -> None:
    ref, reason, words = UNRESOLVED[case]
    result = read(make.rule("/a", make.ref("a"), ref))
    assert result.refused is None
    assert result.route is not None
    assert [backend.name for backend in result.route.rules[0].backends] == ["a"]
    (unresolved,) = result.unresolved
    assert unresolved.reason == reason
    assert words in unresolved.message


def test_a_kept_reader_reads_a_route_anew_only_when_it_or_what_it_leads_to_changed() -> None:
    reader, route = httproutes.Reader(), make.route("mock", make.rule("/a", make.ref("a"), make.ref("b")))
    first = reader.read(route, BACKENDS.resolve)
    assert reader.read(route, BACKENDS.resolve) is first
    moved = Backends(*[[obj for obj in make.service("a", ("10.0.0.2", 8000)) if obj["kind"] == kind] for kind in KINDS])
    second = reader.read(route, moved.resolve)
    assert second.route is not None
    assert second.route.rules[0].backends[0].endpoints[0].address == "10.0.0.2"
    changed = make.route("mock", make.rule("/b", make.ref("a")))
    third = reader.read(changed, moved.resolve)
    assert third.route is not None
    assert third.route.rules[0].matches[0].path == "/b"
    assert third.unresolved == ()
