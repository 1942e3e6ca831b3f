"""From references to addresses."""

from __future__ import annotations

from modelplane.gateway.backends import Backends, Resolved
from modelplane.gateway.model import Balance, Endpoint
from tests.gateway import objects as make

POOL_REF = {"group": "inference.networking.k8s.io", "kind": "InferencePool", "name": "p"}


def resolve(ref, *objects):
    flat = [obj for entry in objects for obj in (entry if isinstance(entry, list) else [entry])]
    kinds = [
        [obj for obj in flat if obj["kind"] == kind] for kind in ("Service", "EndpointSlice", "InferencePool", "Pod")
    ]
    result = Backends(*kinds).resolve(ref, "ml-team")
    assert isinstance(result, Resolved), result
    return result


def test_a_service_has_the_ready_addresses_of_all_its_slices_each_with_its_own_port() -> None:
    found = resolve(
        make.ref("a"),
        make.service("a", ("127.0.0.1", 4001), ("127.0.0.1", 4002)),
        make.endpoint_slice("a-gone", "a", "127.0.0.1", 4003, ready=False),
        make.endpoint_slice("b-0", "b", "127.0.0.1", 4004),
        make.endpoint_slice("a-far", "a", "127.0.0.1", 4005, namespace="other"),
    )
    assert found.endpoints == (Endpoint("127.0.0.1", 4001), Endpoint("127.0.0.1", 4002))
    assert found.balance is Balance.ROUND_ROBIN


def test_an_endpoint_that_does_not_say_is_ready() -> None:
    entry = make.endpoint_slice("a-0", "a", "10.0.0.1", 80)
    entry["endpoints"][0].pop("conditions")
    assert resolve(make.ref("a"), make.service("a"), entry).endpoints == (Endpoint("10.0.0.1", 80),)


def test_slices_of_another_port_of_the_service_are_left_out() -> None:
    service, *_ = make.service("a")
    service["spec"]["ports"] = [{"name": "http", "port": 80}, {"name": "metrics", "port": 81}]
    entry = make.endpoint_slice("a-0", "a", "10.0.0.1", 80)
    entry["ports"] = [{"name": "http", "port": 8000}, {"name": "metrics", "port": 9000}]
    assert resolve(make.ref("a", port=81), service, entry).endpoints == (Endpoint("10.0.0.1", 9000),)


def test_a_host_name_is_kept_as_a_name_and_port_443_means_tls() -> None:
    service, *_ = make.service("a")
    service["spec"]["ports"] = [{"port": 443}]
    entry = make.endpoint_slice("a-0", "a", "api.example.com", 443, kind="FQDN")
    found = resolve(make.ref("a", port=443), service, entry)
    assert found.endpoints == (Endpoint("api.example.com", 443, named=True),)
    assert found.tls


def test_a_port_that_says_https_means_tls_whatever_its_number() -> None:
    service, entry = make.service("a", ("10.0.0.1", 8443))
    service["spec"]["ports"][0]["appProtocol"] = "https"
    assert resolve(make.ref("a"), service, entry).tls


def test_a_pool_is_its_ready_pods_at_its_target_ports() -> None:
    leaving = make.pod("leaving", "127.0.1.4", serving="p")
    leaving["metadata"]["deletionTimestamp"] = "2026-11-29T12:00:00Z"
    pool = make.pool("p", serving="p")
    pool["spec"]["targetPorts"] = [{"number": 8000}, {"number": 8001}]
    found = resolve(
        POOL_REF,
        pool,
        make.pod("one", "127.0.1.1", serving="p"),
        make.pod("loading", "127.0.1.2", ready=False, serving="p"),
        make.pod("other", "127.0.1.3", serving="q"),
        make.pod("far", "127.0.1.5", namespace="other", serving="p"),
        leaving,
    )
    assert found.endpoints == (Endpoint("127.0.1.1", 8000), Endpoint("127.0.1.1", 8001))
    assert found.balance is Balance.LEAST_REQUEST


def test_a_pod_on_its_host_s_address_is_reached_where_its_annotation_says() -> None:
    pod = make.pod("one", host_port="127.0.0.1:41234", serving="p")
    assert resolve(POOL_REF, make.pool("p", serving="p"), pod).endpoints == (Endpoint("127.0.0.1", 41234),)
    entry = make.endpoint_slice("a-0", "a", "127.0.0.1", 8000)
    entry["endpoints"][0]["targetRef"] = {"kind": "Pod", "name": "one"}
    assert resolve(make.ref("a"), make.service("a"), entry, pod).endpoints == (Endpoint("127.0.0.1", 41234),)


def test_an_annotation_that_makes_no_sense_counts_as_none() -> None:
    for nonsense in ("x", "127.0.0.1", "127.0.0.1:http", "example.com:80", "127.0.0.1:99999"):
        pod = make.pod("one", "127.0.1.1", host_port=nonsense, serving="p")
        assert resolve(POOL_REF, make.pool("p", serving="p"), pod).endpoints == (Endpoint("127.0.1.1", 8000),)


def test_a_slice_port_without_number_is_left_out() -> None:
    entry = make.endpoint_slice("a-0", "a", "10.0.0.1", 80)
    entry["ports"] = [{"name": "", "protocol": "TCP"}]
    assert resolve(make.ref("a"), make.service("a"), entry).endpoints == ()
