"""The delta protocol, message by message, without a stream."""

from __future__ import annotations

from modelplane.gateway import wire
from modelplane.gateway.xds.names import CLUSTER, ENDPOINTS, LISTENER, ROUTES
from modelplane.gateway.xds.snapshot import Snapshot, snapshot
from modelplane.gateway.xds.subscription import REQUEST, RESPONSE, Subscription, Verdict


def state(**clusters: str) -> Snapshot:
    """A snapshot with one cluster per argument, and its endpoints; the value stands for the content."""
    return snapshot(
        {
            CLUSTER: {name: {"name": name, "alt_stat_name": value} for name, value in clusters.items()},
            ENDPOINTS: {name: {"cluster_name": name} for name in clusters},
            LISTENER: {},
            ROUTES: {},
        }
    )


def ask(subscription: Subscription, type_: str, **fields) -> Verdict | None:
    return subscription.take(wire.encode(REQUEST, {"type_url": wire.TYPE_URL + type_, **fields}))


def sent(subscription: Subscription, snapshot: Snapshot) -> list[tuple[str, list[str], list[str], str]]:
    messages = []
    for data in subscription.responses(snapshot):
        response = wire.decode(RESPONSE, data)
        messages.append(
            (
                response["type_url"].removeprefix(wire.TYPE_URL),
                [entry["name"] for entry in response.get("resources") or ()],
                response.get("removed_resources") or [],
                response["nonce"],
            )
        )
    return messages


def subscribed() -> Subscription:
    subscription = Subscription()
    ask(subscription, CLUSTER, node={"id": "n"})
    ask(subscription, LISTENER)
    return subscription


def shapes(messages: list[tuple[str, list[str], list[str], str]]) -> list[tuple[str, list[str], list[str]]]:
    return [message[:3] for message in messages]


def test_a_proxy_that_asks_for_all_clusters_gets_them_once() -> None:
    subscription = subscribed()
    assert subscription.node == "n"
    assert shapes(sent(subscription, state(a="1"))) == [(CLUSTER, ["a"], [])]
    assert sent(subscription, state(a="1")) == []


def test_only_what_changed_is_sent_again() -> None:
    subscription = subscribed()
    sent(subscription, state(a="1", b="1"))
    assert shapes(sent(subscription, state(a="1", b="2"))) == [(CLUSTER, ["b"], [])]


def test_a_cluster_that_is_replaced_gets_its_endpoints_again_or_it_would_wait_for_them() -> None:
    subscription = subscribed()
    sent(subscription, state(a="1"))
    ask(subscription, ENDPOINTS, resource_names_subscribe=["a"])
    assert shapes(sent(subscription, state(a="1"))) == [(ENDPOINTS, ["a"], [])]
    assert shapes(sent(subscription, state(a="2"))) == [(CLUSTER, ["a"], []), (ENDPOINTS, ["a"], [])]


def test_clusters_leave_after_everything_that_may_point_at_them() -> None:
    subscription = subscribed()
    ask(subscription, ENDPOINTS, resource_names_subscribe=["a"])
    sent(subscription, state(a="1"))
    assert shapes(sent(subscription, state(b="1"))) == [
        (CLUSTER, ["b"], []),
        (ENDPOINTS, [], ["a"]),
        (CLUSTER, [], ["a"]),
    ]


def test_a_proxy_that_comes_back_is_sent_only_what_it_lacks() -> None:
    have = state(a="1", gone="1")
    versions = {name: entry.version for name, entry in have.entries[CLUSTER].items()}
    subscription = Subscription()
    ask(subscription, CLUSTER, node={"id": "n"}, initial_resource_versions=versions)
    assert shapes(sent(subscription, state(a="1", b="1"))) == [(CLUSTER, ["b"], []), (CLUSTER, [], ["gone"])]


def test_a_name_that_does_not_exist_is_said_once_so_that_nobody_waits_for_it() -> None:
    subscription = subscribed()
    ask(subscription, ROUTES, resource_names_subscribe=["routes/web"])
    assert shapes(sent(subscription, state())) == [(ROUTES, [], ["routes/web"])]
    assert sent(subscription, state()) == []


def test_a_refusal_blames_the_resources_that_it_names() -> None:
    subscription = subscribed()
    ((_, _, _, nonce),) = sent(subscription, state(good="1", bad="1"))
    verdict = ask(subscription, CLUSTER, response_nonce=nonce, error_detail={"code": 13, "message": "cluster bad: no"})
    assert verdict == Verdict(CLUSTER, ("bad",), "cluster bad: no")


def test_a_refusal_that_names_nobody_is_found_out_by_sending_one_at_a_time() -> None:
    subscription, wanted = subscribed(), state(good="1", bad="1")
    ((_, _, _, nonce),) = sent(subscription, wanted)
    error = {"code": 13, "message": "malformed"}
    assert ask(subscription, CLUSTER, response_nonce=nonce, error_detail=error) == Verdict(CLUSTER, (), "malformed")
    (_, good, _, first), (_, bad, _, second) = sent(subscription, wanted)
    assert (good, bad) == (["good"], ["bad"])
    assert ask(subscription, CLUSTER, response_nonce=first) == Verdict(CLUSTER, ("good",), "")
    assert ask(subscription, CLUSTER, response_nonce=second, error_detail=error) == Verdict(
        CLUSTER, ("bad",), "malformed"
    )
    assert sent(subscription, wanted) == [], "what was refused is not sent again until it changes"


def test_the_proxy_has_settled_when_it_has_answered_for_everything() -> None:
    subscription, wanted = subscribed(), state(a="1")
    ((_, _, _, nonce),) = sent(subscription, wanted)
    assert not subscription.settled(wanted, refused=False)
    ask(subscription, CLUSTER, response_nonce=nonce)
    assert not subscription.settled(wanted, refused=False), "the endpoints were not asked for yet"
    ask(subscription, ENDPOINTS, resource_names_subscribe=["a"])
    ((_, _, _, nonce),) = sent(subscription, wanted)
    ask(subscription, ENDPOINTS, response_nonce=nonce)
    assert subscription.settled(wanted, refused=False)
