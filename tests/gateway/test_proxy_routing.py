"""What a real Envoy does with our configuration: paths, weights, rewrites, answers of its own."""

from __future__ import annotations

import socket
import ssl
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from modelplane.gateway.xds.names import ENDPOINTS, LISTENER
from tests.gateway import objects as make
from tests.gateway.backends import Backend
from tests.gateway.rig import NODE, Rig, rig

ONE, TWO = "/ml-team/mock-one/", "/ml-team/mock-two/"


@pytest.fixture
async def proxy(tmp_path: Path):
    async with rig(tmp_path) as made:
        yield made


@pytest.fixture
async def a():
    backend = await Backend("a").start()
    yield backend
    await backend.stop()


@pytest.fixture
async def b():
    backend = await Backend("b").start()
    yield backend
    await backend.stop()


def service(backend: Backend, health: str = "/health"):
    return make.service(backend.name, ("127.0.0.1", backend.port), health=health)


def mock_route(*refs):
    return make.route("mock", make.rule("/ml-team/mock/", *refs))


async def test_six_requests_to_two_equal_endpoints_alternate_each_with_its_own_path(
    proxy: Rig, a: Backend, b: Backend
) -> None:
    await proxy.publish(mock_route(make.ref("a", ONE), make.ref("b", TWO)), service(a), service(b))
    await proxy.answered("/ml-team/mock/v1/models", "ab")
    names = await proxy.names("/ml-team/mock/v1/chat/completions?stream=0", 6)
    assert names in (["a", "b"] * 3, ["b", "a"] * 3)
    assert a.seen[-1][1] == "/ml-team/mock-one/v1/chat/completions?stream=0"
    assert b.seen[-1][1] == "/ml-team/mock-two/v1/chat/completions?stream=0"


async def test_a_retry_on_another_endpoint_has_that_endpoint_s_path(proxy: Rig, a: Backend, b: Backend) -> None:
    await proxy.publish(mock_route(make.ref("a", ONE), make.ref("b", TWO)), service(a), service(b))
    await proxy.answered("/ml-team/mock/v1/models", "ab")
    a.seen.clear()
    b.seen.clear()
    b.status = 503
    body = b"x" * 200_000
    for _ in range(10):
        async with proxy.http.post(f"{proxy.url}/ml-team/mock/v1/completions", data=body) as response:
            assert response.status == 200
            assert response.headers["x-backend"] == "a"
    assert b.seen, "the first request after the change went to b, and was tried again elsewhere"
    assert {path for _, path, _ in a.seen} == {f"{ONE}v1/completions"}
    assert {path for _, path, _ in b.seen} == {f"{TWO}v1/completions"}
    assert len(a.seen) == 10


async def test_a_body_too_large_to_be_kept_for_a_retry_still_gets_through(proxy: Rig, a: Backend) -> None:
    await proxy.publish(mock_route(make.ref("a", ONE)), service(a, ""))
    body = b"x" * (20 * 1024 * 1024)
    async with proxy.http.post(f"{proxy.url}/ml-team/mock/v1/chat/completions", data=body) as response:
        assert response.status == 200


async def test_two_endpoints_behind_one_address_are_two(proxy: Rig, a: Backend) -> None:
    twin = make.service("b", ("127.0.0.1", a.port), health="/health")
    await proxy.publish(mock_route(make.ref("a", ONE), make.ref("b", TWO)), service(a), twin)
    await proxy.eventually(lambda: _paths(proxy, a, {f"{ONE}v1/x", f"{TWO}v1/x"}))
    a.seen.clear()
    await proxy.names("/ml-team/mock/v1/x", 10)
    assert Counter(path for _, path, _ in a.seen) == {f"{ONE}v1/x": 5, f"{TWO}v1/x": 5}
    a.healthy = lambda path: path.startswith(ONE)
    await proxy.eventually(lambda: _paths(proxy, a, {f"{ONE}v1/x"}))


async def _paths(proxy: Rig, backend: Backend, paths: set[str]) -> bool:
    backend.seen.clear()
    await proxy.names("/ml-team/mock/v1/x", 4)
    return {seen for _, seen, _ in backend.seen} == paths


async def test_weights_share_requests_out_whatever_the_number_of_endpoints(proxy: Rig, a: Backend, b: Backend) -> None:
    second = await Backend("a").start()
    try:
        pair = make.service("a", ("127.0.0.1", a.port), ("127.0.0.1", second.port))
        await proxy.publish(
            mock_route(make.ref("a", ONE, weight=3), make.ref("b", TWO, weight=1)), pair, service(b, "")
        )
        found = Counter(await proxy.names("/ml-team/mock/v1/x", 80))
        assert found == {"a": 60, "b": 20}
        assert len(a.seen) == len(second.seen) == 30
    finally:
        await second.stop()


REWRITES = {
    "the rest of the path is kept": ("/ns/svc/", "/x/", "/ns/svc/v1/chat?a=b", "/x/v1/chat?a=b"),
    "the prefix itself becomes the replacement": ("/ns/svc", "/x/y", "/ns/svc", "/x/y"),
    "to the root": ("/ns/svc/", "/", "/ns/svc/v1/chat", "/v1/chat"),
    "the prefix itself to the root": ("/ns/svc", "/", "/ns/svc", "/"),
    "a trailing slash stays": ("/ns/svc", "/x", "/ns/svc/", "/x/"),
    "dots are no pattern": ("/ns/s.c", "/x", "/ns/s.c/v1", "/x/v1"),
    "escapes are kept as they came": ("/ns/svc", "/x", "/ns/svc/a%20b", "/x/a%20b"),
    "from the root": ("/", "/x", "/v1/chat", "/x/v1/chat"),
}


@pytest.mark.parametrize("per_backend", [False, True], ids=["rule", "backend"])
async def test_a_prefix_is_replaced_as_gateway_api_says(proxy: Rig, a: Backend, per_backend: bool) -> None:
    import yarl

    for reason, (prefix, replacement, path, wanted) in REWRITES.items():
        if per_backend:
            rule = make.rule(prefix, make.ref("a", replacement))
        else:
            rule = make.rule(prefix, make.ref("a"), filters=[make.rewrite(replacement)])
        await proxy.publish(make.route("mock", rule), service(a, ""))
        async with proxy.http.get(yarl.URL(proxy.url + path, encoded=True)) as response:
            assert (await response.json())["path"] == wanted, reason


async def test_full_path_host_name_and_headers_are_changed(proxy: Rig, a: Backend) -> None:
    full = {
        "type": "URLRewrite",
        "urlRewrite": {
            "hostname": "engine.internal",
            "path": {"type": "ReplaceFullPath", "replaceFullPath": "/v1/chat"},
        },
    }
    edit = {
        "type": "RequestHeaderModifier",
        "requestHeaderModifier": {"set": [{"name": "x-team", "value": "100%"}], "remove": ["x-drop"]},
    }
    answer = {"type": "ResponseHeaderModifier", "responseHeaderModifier": {"add": [{"name": "x-by", "value": "us"}]}}
    await proxy.publish(
        make.route("mock", make.rule("/a", make.ref("a"), filters=[full, edit, answer])), service(a, "")
    )
    _, body, headers = await proxy.get("/a/b?c=d", headers={"x-drop": "1", "x-team": "2"})
    assert body["path"] == "/v1/chat?c=d"
    assert body["headers"]["host"] == "engine.internal"
    assert body["headers"]["x-team"] == "100%"
    assert "x-drop" not in body["headers"]
    assert headers["x-by"] == "us"


async def test_a_caller_cannot_choose_the_path_behind_the_gateway(proxy: Rig, a: Backend) -> None:
    forged = {"x-modelplane-path": "0 /admin", "x-modelplane-rewrite": "full /admin"}
    for ref in (make.ref("a"), make.ref("a", ONE)):
        await proxy.publish(make.route("mock", make.rule("/a", ref)), service(a, ""))
        _, body, _ = await proxy.get("/a/b", headers=forged)
        assert body["path"] in ("/a/b", f"{ONE}b")


async def test_the_more_specific_match_wins_and_the_rest_falls_back(proxy: Rig, a: Backend, b: Backend) -> None:
    posts = make.rule("/ns/svc", make.ref("b"))
    posts["matches"][0]["method"] = "POST"
    exact = make.rule("/", make.ref("b"))
    exact["matches"] = [{"path": {"type": "Exact", "value": "/ns/svc/only"}}]
    beta = make.rule("/ns", make.ref("b"))
    beta["matches"][0].update(
        {"headers": [{"name": "X-Beta", "value": "1"}], "queryParams": [{"name": "q", "value": "1"}]}
    )
    await proxy.publish(
        make.route("mock", make.rule("/ns", make.ref("a")), posts, exact, beta), service(a, ""), service(b, "")
    )
    assert (await proxy.get("/ns/svc/x"))[1]["name"] == "a", "not a POST, so the shorter prefix has it"
    async with proxy.http.post(f"{proxy.url}/ns/svc/x") as response:
        assert (await response.json())["name"] == "b"
    assert (await proxy.get("/ns/svc/only"))[1]["name"] == "b"
    assert (await proxy.get("/ns/svc/only/not"))[1]["name"] == "a"
    assert (await proxy.get("/ns/x?q=1", headers={"x-beta": "1"}))[1]["name"] == "b"
    assert (await proxy.get("/ns/x?q=2", headers={"x-beta": "1"}))[1]["name"] == "a"
    assert (await proxy.get("/nsx"))[0] == 404, "a prefix ends at a slash"


async def test_host_names_choose_between_routes(proxy: Rig, a: Backend, b: Backend) -> None:
    await proxy.publish(
        make.route("any", make.rule("/", make.ref("a"))),
        make.route("named", make.rule("/", make.ref("b")), hostnames=["*.example.com"]),
        service(a, ""),
        service(b, ""),
    )
    assert (await proxy.get("/x"))[1]["name"] == "a"
    assert (await proxy.get("/x", headers={"host": "chat.example.com:8080"}))[1]["name"] == "b"


async def test_an_unknown_path_is_404_in_the_caller_s_dialect(proxy: Rig) -> None:
    await proxy.publish(make.route("mock", make.rule("/ml-team/mock/")))
    status, body, _ = await proxy.get("/ml-team/other/v1/chat/completions")
    assert (status, body["error"]["code"]) == (404, "service_not_found")
    status, body, _ = await proxy.get("/ml-team/other/v1/messages?beta=true")
    assert (status, body["type"], body["error"]["type"]) == (404, "error", "not_found_error")


@pytest.mark.parametrize("refs", [(), (make.ref("a", ONE),)], ids=["no backend", "a backend without endpoint"])
async def test_a_service_without_endpoint_is_503_and_says_when_to_try_again(proxy: Rig, refs) -> None:
    await proxy.publish(mock_route(*refs), make.service("a"))
    status, body, headers = await proxy.get("/ml-team/mock/v1/chat/completions")
    assert (status, body["error"]["code"], headers["Retry-After"]) == (503, "no_ready_endpoint", "1")
    status, body, headers = await proxy.get("/ml-team/mock/v1/messages")
    assert (status, body["error"]["type"], headers["Retry-After"]) == (503, "overloaded_error", "1")


async def test_a_timeout_that_the_route_asks_for_is_504_and_no_other_exists(proxy: Rig, a: Backend) -> None:
    timed = make.rule("/timed", make.ref("a"), timeouts={"request": "200ms"})
    await proxy.publish(make.route("mock", timed, make.rule("/free", make.ref("a"))), service(a, ""))
    a.silent = True
    status, body, _ = await proxy.get("/timed/v1/chat/completions")
    assert (status, body["error"]["code"]) == (504, "request_timeout")
    dump = await proxy.admin("/config_dump?resource=dynamic_route_configs")
    hosts = dump["configs"][0]["route_config"]["virtual_hosts"]
    lists = hosts[0]["matcher"]["matcher_tree"]["prefix_match_map"]["map"]
    assert lists["/free"]["action"]["typed_config"]["routes"][0]["route"]["timeout"] == "0s"


async def test_a_silent_endpoint_is_left_for_another_after_the_silence_that_is_allowed(
    proxy: Rig, a: Backend, b: Backend
) -> None:
    route = mock_route(make.ref("a", ONE), make.ref("b", TWO))
    route["metadata"]["annotations"] = {"modelplane.ai/idle-timeout": "200ms"}
    await proxy.publish(route, service(a), service(b))
    await proxy.answered("/ml-team/mock/v1/models", "ab")
    b.seen.clear()
    b.silent = True
    for _ in range(4):
        async with proxy.http.post(f"{proxy.url}/ml-team/mock/v1/completions", data=b"{}") as response:
            assert response.status == 200
            assert response.headers["x-backend"] == "a"
    assert b.seen, "it was tried, and given up on"


async def test_endpoints_that_envoy_refuses_are_named_and_everything_else_serves(proxy: Rig, a: Backend) -> None:
    good = make.route("good", make.rule("/good", make.ref("a")))
    bad = make.route("bad", make.rule("/bad", make.ref("b")))
    await proxy.publish(good, bad, service(a, ""), make.service("b", ("not-an-address", 80)))
    complaints = proxy.server.proxy(NODE).complaints
    assert list(complaints) == [(ENDPOINTS, "ml-team/bad/0")]
    assert "not-an-address" in complaints[ENDPOINTS, "ml-team/bad/0"]
    assert (await proxy.get("/good/x"))[0] == 200
    await proxy.publish(good, bad, service(a, ""), make.service("b", ("127.0.0.1", a.port)))
    assert proxy.server.proxy(NODE).complaints == {}
    assert (await proxy.get("/bad/x"))[0] == 200


async def test_a_port_that_somebody_else_took_is_a_complaint_about_the_listener(tmp_path: Path) -> None:
    async with rig(tmp_path) as proxy:
        with socket.create_server(("127.0.0.1", proxy.port)):
            await proxy.publish(make.route("mock", make.rule("/a")))
            ((key, words),) = proxy.server.proxy(NODE).complaints.items()
    assert key == (LISTENER, "listener/web")
    assert "Address already in use" in words


async def test_a_provider_is_spoken_to_over_tls_by_its_name_and_only_if_its_certificate_holds(
    proxy: Rig, tmp_path: Path
) -> None:
    authority, names = certificate(tmp_path, "localhost"), []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority, tmp_path / "key.pem")
    context.sni_callback = lambda _socket, name, _context: names.append(name)
    provider = await Backend("provider").start(tls=context)
    (service,) = make.service("provider")
    service["spec"]["ports"][0]["appProtocol"] = "https"
    served = [
        make.route("mock", make.rule("/x/", make.ref("provider", "/openai/"))),
        service,
        make.endpoint_slice("provider-0", "provider", "localhost", provider.port, kind="FQDN"),
    ]
    try:
        other = certificate(tmp_path / "other", "elsewhere")
        proxy.trust(other)
        await proxy.publish(served)
        assert (await proxy.get("/x/v1/models"))[0] == 503, "signed by nobody that is trusted"
        proxy.trust(authority)
        await proxy.publish(served)
        await proxy.answered("/x/v1/models", ["provider"])
        _, path, headers = provider.seen[-1]
        assert (path, headers["host"]) == ("/openai/v1/models", "localhost")
        assert set(names) == {"localhost"}
    finally:
        await provider.stop()


def certificate(folder: Path, name: str) -> Path:
    """A self-signed certificate for `name` beside its key."""
    folder.mkdir(exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    (folder / "key.pem").write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    (folder / "cert.pem").write_bytes(made.public_bytes(pem))
    return folder / "cert.pem"
