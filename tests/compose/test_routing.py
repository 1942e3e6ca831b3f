"""The front door, endpoints and services."""

from __future__ import annotations

import pytest

from modelplane.api.meta import Object
from modelplane.compose.contract import After, Chart, Host
from modelplane.compose.kinds import (
    ENDPOINT_SLICE,
    GATEWAY,
    GATEWAY_CLASS,
    HTTP_ROUTE,
    INFERENCE_GATEWAY,
    IP_ADDRESS_POOL,
    MODEL_ENDPOINT,
    MODEL_SERVICE,
    SERVICE,
)
from modelplane.compose.registry import COMPOSERS
from modelplane.compose.routing.address import address_type, url_to
from tests.compose.fleet import Fleet, identity
from tests.compose.objects import (
    NAMESPACE,
    SYSTEM,
    entry,
    inference_gateway,
    model_endpoint,
    model_replica,
    model_service,
)

METALLB = {"version": "40.2.0", "loadBalancer": "MetalLB", "metallb": {"addressPool": "10.1.0.1-10.1.0.9"}}
DEPLOYMENT = {"modelplane.ai/deployment": "mock-demo"}


def routed(*objects: Object) -> Fleet:
    """A fleet with a front door and the objects, at rest."""
    fleet = Fleet()
    for obj in (inference_gateway(), *objects):
        fleet.apply(obj)
    fleet.settle()
    return fleet


def route_of(fleet: Fleet) -> Object:
    (route,) = fleet.all(HTTP_ROUTE)
    return route


def rule_of(fleet: Fleet) -> Object:
    (rule,) = route_of(fleet)["spec"]["rules"]
    return rule


# --- the front door ---------------------------------------------------------------------------------------------


def test_the_front_door_is_one_gateway_whose_address_is_published() -> None:
    fleet = routed()
    door = fleet.get(INFERENCE_GATEWAY, "default")
    assert door["status"]["address"] == "modelplane.control"
    assert fleet.condition(door, "ControllerReady")[:2] == ("True", "ControllerHealthy")
    assert fleet.condition(door, "Ready")[0] == "True"
    assert fleet.get(GATEWAY_CLASS, "traefik")["spec"] == {"controllerName": "traefik.io/gateway-controller"}
    (listener,) = fleet.get(GATEWAY, "modelplane", SYSTEM)["spec"]["listeners"]
    assert listener == {
        "name": "web",
        "port": 8000,
        "protocol": "HTTP",
        "allowedRoutes": {"namespaces": {"from": "All"}},
    }


def test_the_host_names_the_front_doors_port() -> None:
    fleet = Fleet(host=Host(name="local", front_door_port=18080))
    fleet.apply(inference_gateway())
    fleet.settle()
    assert fleet.get(GATEWAY, "modelplane", SYSTEM)["spec"]["listeners"][0]["port"] == 18080


@pytest.mark.parametrize(
    ("installs", "words"),
    [
        (True, "chart traefik 40.2.0 is being installed in traefik-system"),
        (
            False,
            "chart traefik 40.2.0 is not installed in traefik-system, which is yours to do: the event ChartMissing has",
        ),
    ],
)
def test_a_controller_that_is_not_there_is_being_installed_only_where_somebody_does(installs: bool, words: str) -> None:
    """An operator without an installer would be waited for in vain."""
    from modelplane.compose.inference_gateway import compose
    from tests.compose.fleet import FakeWorld

    composition = compose(inference_gateway(), FakeWorld({}, host=Host(installs_charts=installs)))
    [controller] = [one for one in composition.conditions if one.type == "ControllerReady"]
    assert (controller.status, controller.reason) == ("False", "Installing")
    assert controller.message.startswith(words)


def test_a_load_balancer_comes_with_its_addresses() -> None:
    fleet = Fleet()
    fleet.apply(inference_gateway(traefik=METALLB))
    fleet.settle()
    assert [key for _, key in fleet.charts] == ["metallb", "traefik"]
    assert fleet.all(IP_ADDRESS_POOL)[0]["spec"] == {"addresses": ["10.1.0.1-10.1.0.9"]}


def test_an_address_pool_without_meaning_on_the_host_is_named_and_not_composed() -> None:
    fleet = Fleet(host=Host(name="local"))
    fleet.apply(inference_gateway(traefik=METALLB))
    fleet.settle()
    assert not fleet.all(IP_ADDRESS_POOL)
    (event,) = fleet.last[identity(inference_gateway())].events
    assert "10.1.0.1-10.1.0.9" in event.message


def test_the_chart_has_the_version_that_was_asked_for() -> None:
    fleet = routed()
    (chart,) = (c for c in fleet.last[identity(inference_gateway())].children if isinstance(c, Chart))
    assert (chart.name, chart.version, chart.target) == ("traefik", "40.2.0", None)


REFUSED = [
    ("a second front door would fight the first", inference_gateway("other"), "default"),
    (
        "a door on a cluster is the newer shape",
        inference_gateway(backend=None, traefik=None, clusterName="eu"),
        "Traefik",
    ),
]


@pytest.mark.parametrize(("reason", "door", "words"), REFUSED, ids=[case[0] for case in REFUSED])
def test_a_front_door_that_is_not_made_says_what_to_do(reason: str, door: Object, words: str) -> None:
    door = door | {"spec": {key: value for key, value in door["spec"].items() if value is not None}}
    fleet = Fleet()
    fleet.apply(door)
    fleet.settle()
    stored = fleet.get(INFERENCE_GATEWAY, door["metadata"]["name"])
    status, code, message = fleet.condition(stored, "Ready")
    assert (status, code) == ("False", "Unsupported")
    assert words in message
    assert not fleet.all(GATEWAY)


def test_the_gateway_goes_before_its_controller() -> None:
    edges = COMPOSERS[INFERENCE_GATEWAY].deletion_order({})
    assert After("gateway", "gateway-class") in edges
    assert After("gateway-class", "traefik") in edges


# --- endpoints --------------------------------------------------------------------------------------------------

URLS = [
    ("an address and the scheme's port", "http://10.0.0.1/ml-team/x/v1", "10.0.0.1", 80, "IPv4"),
    ("a provider's name over TLS", "https://api.together.xyz/", "api.together.xyz", 443, "FQDN"),
    ("an IPv6 address loses its brackets", "http://[fd00::5]:8080/v1", "fd00::5", 8080, "IPv6"),
    ("a load balancer's name", "http://a1.elb.us-west-2.amazonaws.com/x", "a1.elb.us-west-2.amazonaws.com", 80, "FQDN"),
    ("an address with a port", "http://10.0.0.1:31080/ml-team/x/v1", "10.0.0.1", 31080, "IPv4"),
    ("a name at the root of DNS", "http://example.com./x", "example.com.", 80, "FQDN"),
]


@pytest.mark.parametrize(("reason", "url", "host", "port", "kind"), URLS, ids=[case[0] for case in URLS])
def test_an_endpoint_becomes_a_service_and_a_slice(reason: str, url: str, host: str, port: int, kind: str) -> None:
    fleet = routed(model_endpoint("one", url=url, rewritePath="/"))
    (service,), (slice_,) = fleet.all(SERVICE), fleet.all(ENDPOINT_SLICE)
    assert service["spec"]["ports"][0]["port"] == port
    assert "selector" not in service["spec"]
    assert slice_["addressType"] == kind
    assert slice_["endpoints"] == [{"addresses": [host], "conditions": {"ready": True}}]
    assert slice_["ports"] == [{"name": "", "port": port, "protocol": "TCP"}]
    assert slice_["metadata"]["labels"] == {"kubernetes.io/service-name": service["metadata"]["name"]}
    endpoint = fleet.get(MODEL_ENDPOINT, "one", NAMESPACE)
    assert endpoint["status"]["routing"] == {"backendName": service["metadata"]["name"]}
    assert fleet.condition(endpoint, "RoutingReady")[:2] == ("True", "BackendConfigured")


UNROUTABLE = [
    ("a name without a domain", "http://vllm:8000/v1", "without a domain"),
    ("a name that DNS does not have", "http://my_vllm.example.com/v1", "no DNS name"),
    ("an address with zeros in front", "http://10.0.0.01/v1", "no IPv4 address"),
    ("an address that is none", "http://10.0.0.256/v1", "no IPv4 address"),
    ("the gateway itself", "http://127.0.0.1:8000/v1", "own machine"),
    ("the gateway itself, IPv6", "http://[::1]:8000/v1", "own machine"),
    ("no address at all", "http://0.0.0.0/v1", "no address to send to"),
    ("the metadata service", "http://169.254.169.254/v1", "one network segment"),
    ("multicast on the link", "http://224.0.0.251/v1", "one network segment"),
]


@pytest.mark.parametrize(("reason", "url", "words"), UNROUTABLE, ids=[case[0] for case in UNROUTABLE])
def test_a_host_that_no_slice_may_hold_is_refused_with_what_to_write(reason: str, url: str, words: str) -> None:
    fleet = routed(model_endpoint("one", url=url, rewritePath="/"))
    endpoint = fleet.get(MODEL_ENDPOINT, "one", NAMESPACE)
    status, why, message = fleet.condition(endpoint, "RoutingReady")
    assert (status, why) == ("False", "InvalidURL")
    assert words in message
    assert fleet.all(ENDPOINT_SLICE) == []


def test_a_simulated_gateway_reaches_its_own_machine() -> None:
    fleet = Fleet(host=Host(name="local"))
    fleet.apply(model_endpoint("one", url="http://127.0.0.1:31080/v1", rewritePath="/"))
    fleet.settle()
    assert fleet.all(ENDPOINT_SLICE)[0]["endpoints"][0]["addresses"] == ["127.0.0.1"]


def test_an_endpoint_is_not_published_before_its_backend_exists() -> None:
    fleet = Fleet()
    fleet.apply(model_endpoint("one"))
    fleet.reconcile(fleet.get(MODEL_ENDPOINT, "one", NAMESPACE))
    endpoint = fleet.get(MODEL_ENDPOINT, "one", NAMESPACE)
    assert "routing" not in endpoint["status"]
    assert fleet.condition(endpoint, "RoutingReady")[:2] == ("False", "WaitingForBackend")


@pytest.mark.parametrize("url", ["not-a-url", "https://host:abc", "http://host:99999/"])
def test_a_url_that_cannot_be_routed_to_is_quoted(url: str) -> None:
    fleet = routed(model_endpoint("one", url=url))
    status, reason, message = fleet.condition(fleet.get(MODEL_ENDPOINT, "one", NAMESPACE), "RoutingReady")
    assert (status, reason) == ("False", "InvalidURL")
    assert url in message
    assert fleet.condition(fleet.get(MODEL_ENDPOINT, "one", NAMESPACE), "Ready")[0] == "False"
    assert not fleet.all(SERVICE)


def test_a_url_that_becomes_bad_leaves_the_old_backend_in_place() -> None:
    fleet = routed(model_endpoint("one", url="http://10.0.0.1/"))
    fleet.apply(model_endpoint("one", url="not-a-url"))
    fleet.settle()
    assert len(fleet.all(SERVICE)) == len(fleet.all(ENDPOINT_SLICE)) == 1


def test_an_authored_origin_is_an_endpoint_too() -> None:
    provider = model_endpoint("groq", {"team": "x"}, origin="https://api.groq.com", api={"prefix": "/openai/v1"})
    service = model_service("kimi", {"selector": {"matchLabels": {"team": "x"}}})
    fleet = routed(provider, service)
    (reference,) = rule_of(fleet)["backendRefs"]
    assert reference["port"] == 443
    assert reference["filters"][0]["urlRewrite"] == {
        "path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/openai/"},
        "hostname": "api.groq.com",
    }
    (backend,) = fleet.all(SERVICE)
    assert backend["spec"]["ports"][0]["appProtocol"] == "https"


BEYOND = [
    ("credentials", {"credential": {"method": "APIKey", "apiKey": {"secretRef": {"name": "key"}}}}),
    ("another model name", {"model": "llama"}),
    ("another dialect", {"api": {"schema": "Anthropic"}}),
]


@pytest.mark.parametrize(("reason", "extra"), BEYOND, ids=[case[0] for case in BEYOND])
def test_no_field_of_an_endpoint_is_taken_and_ignored(reason: str, extra: Object) -> None:
    fleet = routed(model_endpoint("one", origin="https://api.example.com", **extra))
    status, code, _ = fleet.condition(fleet.get(MODEL_ENDPOINT, "one", NAMESPACE), "EndpointReady")
    assert (status, code) == ("False", "Unsupported")
    assert not fleet.all(SERVICE)


def test_a_composed_endpoint_keeps_the_model_names_that_its_replica_answered_with() -> None:
    labels = model_replica()["metadata"]["labels"]
    fleet = Fleet()
    fleet.apply(model_replica() | {"status": {"models": ["llama"]}})
    fleet.apply(model_endpoint("mock-demo-be445", labels))
    endpoint = fleet.get(MODEL_ENDPOINT, "mock-demo-be445", NAMESPACE)
    fleet.reconcile(endpoint)
    assert fleet.get(MODEL_ENDPOINT, "mock-demo-be445", NAMESPACE)["status"]["models"] == ["llama"]


def test_model_names_stay_while_the_replica_is_not_seen() -> None:
    labels = model_replica()["metadata"]["labels"]
    fleet = Fleet()
    fleet.apply(model_endpoint("mock-demo-be445", labels) | {"status": {"models": ["llama"]}})
    fleet.settle()
    assert fleet.get(MODEL_ENDPOINT, "mock-demo-be445", NAMESPACE)["status"]["models"] == ["llama"]


# --- services ---------------------------------------------------------------------------------------------------


def test_a_service_is_one_route_with_a_rewrite_per_backend() -> None:
    fleet = routed(model_endpoint("a", DEPLOYMENT), model_endpoint("b", DEPLOYMENT), model_service())
    service = fleet.get(MODEL_SERVICE, "mock", NAMESPACE)
    assert service["status"]["address"] == f"http://modelplane.control/{NAMESPACE}/mock"
    assert fleet.condition(service, "EndpointsResolved") == ("True", "Resolved", "Matched 2 endpoint(s)")
    assert fleet.condition(service, "RoutingReady")[:2] == ("True", "RouteConfigured")
    assert fleet.condition(service, "Ready")[0] == "True"
    rule = rule_of(fleet)
    assert rule["matches"] == [{"path": {"type": "PathPrefix", "value": f"/{NAMESPACE}/mock/"}}]
    assert rule["timeouts"] == {"request": "0s"}
    names = [f["metadata"]["name"] for f in fleet.all(MODEL_ENDPOINT)]
    assert [ref["filters"][0]["urlRewrite"]["path"]["replacePrefixMatch"] for ref in rule["backendRefs"]] == [
        f"/{NAMESPACE}/{name}/" for name in names
    ]
    assert [ref["weight"] for ref in rule["backendRefs"]] == [1, 1]


def test_weights_are_shares_of_entries_and_the_first_entry_keeps_an_endpoint() -> None:
    objects = [model_endpoint("a", {"g": "1"})]
    objects += [model_endpoint(name, {"g": "2"}) for name in ("b", "c", "d")]
    first = {"selector": {"matchLabels": {"g": "1"}}, "weight": 95}
    second = {"selector": {"matchLabels": {"g": "2"}}, "weight": 5}
    everyone_again = {"selector": {"matchLabels": {"g": "1"}}, "weight": 100}
    fleet = routed(*objects, model_service("mock", first, second, everyone_again))
    assert [ref["weight"] for ref in rule_of(fleet)["backendRefs"]] == [57, 1, 1, 1]


def test_higher_priority_numbers_wait_until_lower_ones_have_no_endpoint() -> None:
    first = {"selector": {"matchLabels": {"g": "1"}}, "priority": 0}
    second = {"selector": {"matchLabels": {"g": "2"}}, "priority": 1}
    own, rented = model_endpoint("own", {"g": "1"}), model_endpoint("rented", {"g": "2"})
    fleet = routed(own, rented, model_service("mock", first, second))
    assert len(rule_of(fleet)["backendRefs"]) == 1
    fleet.stores[None].pop(identity(own))
    fleet.settle()
    (reference,) = rule_of(fleet)["backendRefs"]
    assert reference["filters"][0]["urlRewrite"]["path"]["replacePrefixMatch"] == f"/{NAMESPACE}/rented/"


def test_endpoints_of_other_namespaces_do_not_count() -> None:
    foreign = model_endpoint("a", DEPLOYMENT)
    foreign["metadata"] = foreign["metadata"] | {"namespace": "other"}
    fleet = routed(foreign, model_service())
    service = fleet.get(MODEL_SERVICE, "mock", NAMESPACE)
    assert fleet.condition(service, "EndpointsResolved")[:2] == ("False", "NoEndpoints")


def test_an_endpoint_that_is_being_deleted_gets_no_more_traffic() -> None:
    fleet = routed(model_endpoint("a", DEPLOYMENT), model_endpoint("b", DEPLOYMENT), model_service())
    fleet.get(MODEL_ENDPOINT, "a", NAMESPACE)["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    fleet.reconcile(fleet.get(MODEL_SERVICE, "mock", NAMESPACE))
    assert len(rule_of(fleet)["backendRefs"]) == 1


def test_a_service_without_endpoints_keeps_its_address_and_says_why_it_is_not_ready() -> None:
    endpoint = model_endpoint("a", DEPLOYMENT)
    fleet = routed(endpoint, model_service())
    fleet.stores[None].pop(identity(endpoint))
    fleet.settle()
    service = fleet.get(MODEL_SERVICE, "mock", NAMESPACE)
    assert service["status"]["address"] == f"http://modelplane.control/{NAMESPACE}/mock"
    for type_ in ("EndpointsResolved", "RoutingReady", "Ready"):
        status, _, message = fleet.condition(service, type_)
        assert status == "False"
        assert "modelplane.ai/deployment=mock-demo" in message
    assert fleet.condition(service, "Ready")[1] == "NoEndpoints"
    assert "backendRefs" not in rule_of(fleet)


def test_an_address_does_not_flicker_with_the_front_door() -> None:
    fleet = routed(model_service())
    fleet.stores[None].pop(identity(inference_gateway()))
    fleet.settle()
    service = fleet.get(MODEL_SERVICE, "mock", NAMESPACE)
    assert service["status"]["address"] == f"http://modelplane.control/{NAMESPACE}/mock"
    assert fleet.condition(service, "RoutingReady")[:2] == ("False", "WaitingForGateway")
    assert route_of(fleet)


def test_unread_endpoints_change_no_route() -> None:
    fleet = routed(model_endpoint("a", DEPLOYMENT), model_service())
    before = route_of(fleet)["spec"]
    fleet.unread.add(MODEL_ENDPOINT)
    fleet.apply(model_service("mock", entry("mock-demo", weight=7)))
    fleet.settle()
    assert route_of(fleet)["spec"] == before


def test_a_timeout_is_set_only_where_the_service_asks_for_one() -> None:
    fleet = routed(model_service("mock", entry("mock-demo"), timeouts={"request": "30s"}))
    assert rule_of(fleet)["timeouts"] == {"request": "30s"}


def test_the_silence_that_a_service_puts_up_with_stands_on_its_route() -> None:
    fleet = routed(model_service("mock", entry("mock-demo"), timeouts={"idle": "5s"}))
    assert route_of(fleet)["metadata"]["annotations"] == {"modelplane.ai/idle-timeout": "5s"}
    without = routed(model_service("mock", entry("mock-demo")))
    assert "annotations" not in route_of(without)["metadata"]


def test_a_route_that_is_not_accepted_yet_is_not_ready() -> None:
    fleet = Fleet()
    for obj in (inference_gateway(), model_endpoint("a", DEPLOYMENT), model_service()):
        fleet.apply(obj)
    fleet.settle()
    route_of(fleet)["status"] = {}
    fleet.settle(healthy=False)
    service = fleet.get(MODEL_SERVICE, "mock", NAMESPACE)
    assert fleet.condition(service, "RoutingReady")[:2] == ("False", "Configuring")


def test_an_address_type_is_that_of_the_host() -> None:
    assert [address_type(host) for host in ("10.0.0.1", "fd00::5", "gw.example.com")] == ["IPv4", "IPv6", "FQDN"]


ADDRESSES = [
    ("a host", "10.0.0.1", "http://10.0.0.1/x"),
    ("a host and a port", "127.0.0.1:8080", "http://127.0.0.1:8080/x"),
    ("a bare IPv6 literal gets brackets", "fd00::5", "http://[fd00::5]/x"),
    ("a bracketed one stays", "[fd00::5]:8080", "http://[fd00::5]:8080/x"),
]


@pytest.mark.parametrize(("reason", "address", "url"), ADDRESSES, ids=[case[0] for case in ADDRESSES])
def test_a_url_is_made_of_a_published_address(reason: str, address: str, url: str) -> None:
    assert url_to(address, "/x") == url
