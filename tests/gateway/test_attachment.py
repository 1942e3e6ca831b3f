"""Which routes attach to which listener, and what is said where they do not."""

from __future__ import annotations

import pytest

from modelplane.api.meta import Key
from modelplane.gateway.attachment import FRONT_DOOR, Objects, attach, hosts
from modelplane.gateway.statuses import ProxyFacts, class_status, dated, gateway_status, pool_status, route_status
from tests.gateway import objects as make

GATEWAY = Key("modelplane-system", "modelplane")


def picture(*routes, gateway=None, namespaces=(), classes=None, services=(), pools=()):
    return attach(
        Objects(
            classes=(make.gateway_class(),) if classes is None else classes,
            gateways=(gateway or make.gateway(),),
            routes=routes,
            namespaces=namespaces,
            services=tuple(services),
            pools=tuple(pools),
        ),
        {FRONT_DOOR},
    )


def condition(parent, type_):
    return next(entry for entry in parent["conditions"] if entry["type"] == type_)


def parents(route, shown, **proxy):
    facts = {GATEWAY: ProxyFacts(**proxy)}
    return route_status(route, shown.routes.get(Key.of(route), ()), shown, facts)


ROUTE = make.route("mock", make.rule("/ml-team/mock/"))
NAMESPACE = {"metadata": {"name": "ml-team", "labels": {"modelplane.ai/namespace": "ml-team"}}}


def only_from(**namespaces):
    return make.gateway(allowedRoutes={"namespaces": namespaces})


REFUSED = {
    "a section that is not there": (
        make.gateway(),
        {"sectionName": "https"},
        "NoMatchingParent",
        "the parentRef asks for a listener by name",
    ),
    "a port that is not there": (make.gateway(), {"port": 1}, "NoMatchingParent", "the parentRef asks for a port"),
    "another namespace": (
        only_from(**{"from": "Same"}),
        {},
        "NotAllowedByListeners",
        "Same is the default of Gateway API",
    ),
    "an unlabelled namespace": (
        only_from(**{"from": "Selector", "selector": {"matchLabels": {"a": "b"}}}),
        {},
        "NotAllowedByListeners",
        "the namespace lacks the label",
    ),
    "another host name": (
        make.gateway(hostname="b.example.com"),
        {},
        "NoMatchingListenerHostname",
        "the names do not meet",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_route_that_cannot_attach_says_why(case: str) -> None:
    gateway, ref, reason, because = REFUSED[case]
    route = make.route("mock", make.rule("/"), hostnames=["a.example.com"])
    route["spec"]["parentRefs"][0].update(ref)
    shown = picture(route, gateway=gateway, namespaces=(NAMESPACE,))
    (parent,) = parents(route, shown)
    accepted = condition(parent, "Accepted")
    assert (accepted["status"], accepted["reason"]) == ("False", reason), because
    assert shown.gateways[GATEWAY].listeners[0].routes == ()


def test_a_route_attaches_from_a_namespace_that_carries_the_label() -> None:
    selector = {"matchExpressions": [{"key": "modelplane.ai/namespace", "operator": "Exists"}]}
    shown = picture(ROUTE, gateway=only_from(**{"from": "Selector", "selector": selector}), namespaces=(NAMESPACE,))
    (parent,) = parents(ROUTE, shown)
    assert condition(parent, "Accepted")["status"] == "True"
    assert parent["controllerName"] == FRONT_DOOR
    assert parent["parentRef"] == ROUTE["spec"]["parentRefs"][0]


def test_a_gateway_of_another_controller_is_left_alone() -> None:
    shown = picture(ROUTE, classes=(make.gateway_class(controller="example.com/other"),))
    assert shown.gateways == {}
    assert shown.routes == {}
    assert shown.classes == ()


def test_a_class_that_is_briefly_missing_takes_no_gateway_down_but_another_controller_s_does() -> None:
    gateway = make.gateway()
    serving = {GATEWAY: FRONT_DOOR}
    gone = attach(Objects(gateways=(gateway,), routes=(ROUTE,)), {FRONT_DOOR}, serving=serving)
    assert gone.gateways[GATEWAY].listeners[0].routes
    assert gone.controllers == serving
    foreign = make.gateway_class(controller="example.com/other")
    taken = attach(Objects(classes=(foreign,), gateways=(gateway,)), {FRONT_DOOR}, serving=serving)
    assert taken.gateways == {}
    assert attach(Objects(gateways=(gateway,)), {FRONT_DOOR}).gateways == {}, "never served, so not ours"


def test_a_field_that_is_not_carried_out_is_named_on_the_gateway_and_on_its_listener() -> None:
    gateway = make.gateway(tls={"mode": "Terminate"})
    gateway["spec"]["allowedListeners"] = {}
    shown = picture(gateway=gateway)
    status = gateway_status(shown.gateway_objects[GATEWAY], shown.listeners[GATEWAY], ProxyFacts(programmed=True))
    assert "spec.allowedListeners" in condition(status, "Accepted")["message"]
    assert condition(status, "Accepted")["status"] == "False"
    accepted = condition(status["listeners"][0], "Accepted")
    assert (accepted["status"], accepted["reason"]) == ("False", "UnsupportedValue")


@pytest.mark.parametrize(
    ("names", "listener", "served", "reason"),
    [
        ((), "", ("*",), "neither names a host"),
        ((), "*.example.com", ("*.example.com",), "the listener's name narrows the route"),
        (("a.example.com",), "*.example.com", ("a.example.com",), "the narrower of the two"),
        (("*.example.com",), "a.example.com", ("a.example.com",), "the narrower of the two, the other way round"),
        (("example.com",), "*.example.com", (), "a wildcard has at least one label in front"),
        (("a.other.com",), "*.example.com", (), "they do not meet"),
    ],
)
def test_host_names_of_route_and_listener_meet_at_the_narrower(names, listener, served, reason) -> None:
    assert hosts(names, listener) == served, reason


def test_a_gateway_publishes_its_address_and_says_that_it_is_programmed() -> None:
    shown = picture(ROUTE)
    facts = ProxyFacts(addresses=("127.0.0.1:41000",), programmed=True)
    status = gateway_status(shown.gateway_objects[GATEWAY], shown.listeners[GATEWAY], facts)
    assert status["addresses"] == [{"type": "Hostname", "value": "127.0.0.1:41000"}]
    assert {entry["type"]: entry["status"] for entry in status["conditions"]} == {
        "Accepted": "True",
        "Programmed": "True",
    }
    (listener,) = status["listeners"]
    assert (listener["name"], listener["attachedRoutes"]) == ("web", 1)


def test_a_port_that_is_the_scheme_s_own_is_left_out_of_the_address() -> None:
    shown = picture()
    status = gateway_status(shown.gateway_objects[GATEWAY], (), ProxyFacts(addresses=("127.0.0.1",), programmed=True))
    assert status["addresses"] == [{"type": "IPAddress", "value": "127.0.0.1"}]


def test_a_listener_of_another_protocol_is_refused_and_the_gateway_says_so() -> None:
    shown = picture(gateway=make.gateway(protocol="TCP"))
    status = gateway_status(shown.gateway_objects[GATEWAY], shown.listeners[GATEWAY], ProxyFacts(programmed=True))
    accepted = condition(status, "Accepted")
    assert (accepted["status"], accepted["reason"]) == ("False", "ListenersNotValid")
    assert "protocol TCP" in accepted["message"]
    assert shown.gateways[GATEWAY].listeners == ()


def test_what_envoy_refuses_is_said_on_the_route_in_envoy_s_words() -> None:
    (parent,) = parents(ROUTE, picture(ROUTE), programmed=True, refused={"ml-team/mock": "bad cluster"})
    accepted = condition(parent, "Accepted")
    assert (accepted["status"], accepted["reason"]) == ("False", "UnsupportedValue")
    assert "bad cluster" in accepted["message"]


def test_a_backend_that_is_missing_leaves_the_route_accepted_but_not_resolved() -> None:
    route = make.route("mock", make.rule("/a", make.ref("gone")))
    (parent,) = parents(route, picture(route))
    assert condition(parent, "Accepted")["status"] == "True"
    resolved = condition(parent, "ResolvedRefs")
    assert (resolved["status"], resolved["reason"]) == ("False", "BackendNotFound")


def test_a_pool_names_the_gateway_that_sends_to_it() -> None:
    ref = {"group": "inference.networking.k8s.io", "kind": "InferencePool", "name": "p"}
    pool = make.pool("p")
    shown = picture(make.route("mock", make.rule("/a", ref)), pools=(pool,))
    (parent,) = pool_status(pool, shown.pools[Key.of(pool)], shown)
    assert parent["parentRef"]["name"] == "modelplane"
    assert condition(parent, "Accepted")["status"] == "True"


def test_a_class_is_accepted_and_says_what_of_it_has_no_meaning() -> None:
    obj = make.gateway_class()
    obj["spec"]["parametersRef"] = {"kind": "EnvoyProxy", "name": "inference-gateway"}
    (accepted,) = class_status(obj)["conditions"]
    assert accepted["status"] == "True"
    assert "no meaning here" in accepted["message"]


def test_a_condition_keeps_its_time_until_its_status_changes() -> None:
    before = [
        {"type": "A", "status": "True", "lastTransitionTime": "t0"},
        {"type": "B", "status": "True", "lastTransitionTime": "t0"},
    ]
    after = dated(
        [{"type": "A", "status": "True"}, {"type": "B", "status": "False"}, {"type": "C", "status": "True"}],
        before,
        "t1",
    )
    assert [entry["lastTransitionTime"] for entry in after] == ["t0", "t1", "t1"]
