"""The Envoy resources: what has to hold of them before an Envoy sees them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from modelplane.gateway.model import Backend, Endpoint, Gateway, Listener, Match, Rewrite, RewriteKind, Route, Rule
from modelplane.gateway.xds.clusters import cluster, weights
from modelplane.gateway.xds.configuration import Place, configuration
from modelplane.gateway.xds.names import ENDPOINTS, ROUTES
from modelplane.gateway.xds.routes import route_configuration
from modelplane.gateway.xds.snapshot import snapshot

PLACE = Place("127.0.0.1", {"web": 8000}, 8001)


def backend(name: str, count: int, weight: int = 1, **more) -> Backend:
    return Backend(
        name, weight, tuple(Endpoint(f"10.0.{sum(name.encode()) % 250}.{n}", 80) for n in range(count)), **more
    )


def gateway(*rules: Rule) -> Gateway:
    route = Route("ml-team", "mock", "", (), rules)
    return Gateway("modelplane-system", "modelplane", (Listener("web", 80, "", (route,)),))


@given(st.lists(st.tuples(st.integers(1, 1_000_000), st.integers(0, 12)), min_size=1, max_size=8))
def test_a_backend_s_share_is_its_weight_however_many_endpoints_it_has(groups: list[tuple[int, int]]) -> None:
    backends = [
        Backend(str(n), weight, tuple(Endpoint("10.0.0.1", p) for p in range(count)))
        for n, (weight, count) in enumerate(groups)
    ]
    found = weights(backends)
    assert all(share <= 1_000_000 for share in found)
    assert all((share > 0) == (count > 0) for share, (_, count) in zip(found, groups, strict=True))
    total = sum(share * count for share, (_, count) in zip(found, groups, strict=True))
    alive = sum(weight for weight, count in groups if count)
    for share, (weight, count) in zip(found, groups, strict=True):
        if count:
            wanted, got = weight / alive, share * count / total
            assert abs(got - wanted) < 1e-4 or abs(got - wanted) / wanted < 0.01


def test_equal_backends_weigh_one_so_that_requests_alternate() -> None:
    assert weights([backend("a", 1, 7), backend("b", 1, 7)]) == [1, 1]


def test_endpoints_that_share_an_address_are_written_into_the_cluster_because_eds_would_merge_them() -> None:
    same = (Endpoint("10.0.0.1", 80),)
    rule = Rule(
        "ml-team/mock/0",
        (Match("/a"),),
        (
            Backend("one", 1, same, rewrite=Rewrite("", RewriteKind.PREFIX, "/one/")),
            Backend("two", 1, same, rewrite=Rewrite("", RewriteKind.PREFIX, "/two/")),
        ),
    )
    made, assignment = cluster(rule, 1)
    assert assignment is None
    assert made["type"] == "STATIC"
    (locality,) = made["load_assignment"]["endpoints"]
    assert [entry["metadata"]["filter_metadata"]["modelplane"]["rewrite"] for entry in locality["lb_endpoints"]] == [
        "prefix /one/",
        "prefix /two/",
    ]


def test_a_change_of_weights_or_endpoints_changes_the_endpoints_only() -> None:
    def made(*backends: Backend):
        return configuration(gateway(Rule("ml-team/mock/0", (Match("/a"),), backends)), PLACE)

    before, after = made(backend("a", 1, 1)), made(backend("a", 2, 9), backend("b", 1))
    assert {type_ for type_ in before if before[type_] != after[type_]} == {ENDPOINTS}


def test_the_first_endpoint_of_a_service_changes_its_endpoints_only_or_a_request_could_meet_half_of_the_change() -> (
    None
):
    def made(*backends: Backend):
        return configuration(gateway(Rule("ml-team/mock/0", (Match("/a"),), backends)), PLACE)

    before, after = made(), made(backend("a", 1, health="/health", rewrite=Rewrite("", RewriteKind.PREFIX, "/one/")))
    assert {type_ for type_ in before if before[type_] != after[type_]} == {ENDPOINTS}


def test_the_longer_path_falls_back_to_the_routes_of_the_shorter_ones() -> None:
    rules = (
        Rule("a/b/0", (Match("/ns"),), ()),
        Rule("a/b/1", (Match("/ns/svc", method="POST"),), ()),
        Rule("a/b/2", (Match("/"),), ()),
        Rule("a/b/3", (Match("/nsx"),), ()),
    )
    made = route_configuration("routes/web", gateway(*rules).listeners[0])
    lists = made["virtual_hosts"][0]["matcher"]["matcher_tree"]["prefix_match_map"]["map"]
    found = {
        path: [route["route"]["cluster"] for route in entry["action"]["typed_config"]["routes"]]
        for path, entry in lists.items()
    }
    assert found == {
        "/ns": ["a/b/0", "a/b/2"],
        "/ns/svc": ["a/b/1", "a/b/0", "a/b/2"],
        "/": ["a/b/2"],
        "/nsx": ["a/b/3", "a/b/2"],
    }


def test_versions_are_those_of_the_content_and_unchanged_resources_keep_their_bytes() -> None:
    rule = Rule("ml-team/mock/0", (Match("/a"),), (backend("a", 1),))
    first = snapshot(configuration(gateway(rule), PLACE))
    again = snapshot(configuration(gateway(rule), PLACE))
    assert again == first
    other = Rule("ml-team/mock/0", (Match("/b"),), (backend("a", 1),))
    changed = snapshot(configuration(gateway(other), PLACE), first)
    assert changed.version(ROUTES, "routes/web") != first.version(ROUTES, "routes/web")
    assert changed.entries[ENDPOINTS]["ml-team/mock/0"] is first.entries[ENDPOINTS]["ml-team/mock/0"]
