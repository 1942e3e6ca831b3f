"""Logs are asked of the node that runs the pod."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from modelplane.server.testing import ServerProcess
from tests.server.api import Api, pod


class Kubelet(BaseHTTPRequestHandler):
    """Answers with the path that it was asked for, in two chunks."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if "/broken" in self.path:
            self.send_error(500, "no such container here")
            return
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for part in (b"asked for ", self.path.encode()):
            self.wfile.write(b"%x\r\n%b\r\n" % (len(part), part))
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def kubelet(server: ServerProcess) -> Iterator[int]:
    directory: Path = server.kubeconfig.parent
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "serving.crt", directory / "serving.key")
    listener = ThreadingHTTPServer(("127.0.0.1", 0), Kubelet)
    listener.socket = context.wrap_socket(listener.socket, server_side=True)
    thread = threading.Thread(target=listener.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield listener.server_port
    listener.shutdown()
    listener.server_close()


def _node(api: Api, name: str, port: int) -> None:
    status = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    }
    api.create("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status})


def test_a_log_is_passed_on_with_its_parameters(api: Api, namespace: str, kubelet: int) -> None:
    _node(api, "n1", kubelet)
    pods = f"/api/v1/namespaces/{namespace}/pods"
    api.create(pods, pod("p", nodeName="n1"))
    reply = api.call("GET", f"{pods}/p/log?tailLines=5&follow=true")
    assert reply.code == 200
    assert reply.body.startswith(f"asked for /containerLogs/{namespace}/p/main?")
    assert "tailLines=5" in reply.body
    assert "follow=true" in reply.body


def test_a_pod_without_a_node_has_an_empty_log(api: Api, namespace: str) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"
    api.create(pods, pod("p"))
    assert api.call("GET", f"{pods}/p/log").body == ""


CONTAINERS = [
    ("", "a container name must be specified for pod p, choose one of: [main side]", "two to choose from"),
    ("?container=none", "container none is not valid for pod p", "no such container"),
]


@pytest.mark.parametrize(("query", "message", "reason"), CONTAINERS)
def test_the_container_has_to_be_clear(api: Api, namespace: str, query: str, message: str, reason: str) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"
    body = pod("p")
    body["spec"]["containers"].append({"name": "side", "image": "x"})
    api.create(pods, body)
    reply = api.call("GET", f"{pods}/p/log{query}")
    assert (reply.code, reply.body["message"]) == (400, message), reason


def test_a_node_that_is_away_is_said_to_be(api: Api, namespace: str) -> None:
    _node(api, "n2", 1)
    pods = f"/api/v1/namespaces/{namespace}/pods"
    api.create(pods, pod("p", nodeName="n2"))
    reply = api.call("GET", f"{pods}/p/log")
    assert reply.code == 500
    assert "https://127.0.0.1:1/containerLogs/" in reply.body["message"]


def test_a_debugging_container_has_a_log_too(api: Api, namespace: str, kubelet: int) -> None:
    _node(api, "n-dbg", kubelet)
    pods = f"/api/v1/namespaces/{namespace}/pods"
    api.create(pods, pod("p", nodeName="n-dbg"))
    added = {"spec": {"ephemeralContainers": [{"name": "dbg", "image": "x"}]}}
    api.patch(f"{pods}/p/ephemeralcontainers", added, type_="application/strategic-merge-patch+json")
    reply = api.call("GET", f"{pods}/p/log?container=dbg")
    assert (reply.code, reply.body) == (200, f"asked for /containerLogs/{namespace}/p/dbg")
