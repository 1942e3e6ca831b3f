"""A small HTTP client for the tests: exact bytes out, exact answers in, nothing that hides a status code."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

JSON = "application/json"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


@dataclass(frozen=True)
class Reply:
    code: int
    body: Any
    headers: Mapping[str, str]

    @property
    def warnings(self) -> list[str]:
        return [value for name, value in self.headers.items() if name.startswith("warning")]


class Api:
    """Talks to a server as the holder of its kubeconfig, or of another token."""

    def __init__(self, kubeconfig: Path, token: str | None = None) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        self.url = config["clusters"][0]["cluster"]["server"]
        import base64

        authority = base64.b64decode(config["clusters"][0]["cluster"]["certificate-authority-data"]).decode()
        self._tls = ssl.create_default_context(cadata=authority)
        self.kubeconfig = kubeconfig
        self.token = config["users"][0]["user"]["token"] if token is None else token
        self._connection: http.client.HTTPSConnection | None = None

    def as_token(self, token: str) -> Api:
        return Api(self.kubeconfig, token)

    def connect(self, timeout: float = 30) -> http.client.HTTPSConnection:
        parts = urlsplit(self.url)
        assert parts.hostname is not None
        return http.client.HTTPSConnection(parts.hostname, parts.port, context=self._tls, timeout=timeout)

    def _headers(self, more: Mapping[str, str]) -> dict[str, str]:
        return {**({"Authorization": f"Bearer {self.token}"} if self.token else {}), "User-Agent": "tests/1", **more}

    def call(
        self, method: str, path: str, body: object = None, *, type_: str = JSON, accept: str = JSON, **headers: str
    ) -> Reply:
        payload = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        wanted = {"Accept": accept, **headers}
        if payload is not None:
            wanted["Content-Type"] = type_
        if self._connection is None:
            self._connection = self.connect()
        try:
            self._connection.request(method, path, payload, self._headers(wanted))
            response = self._connection.getresponse()
            raw = response.read()
        except (OSError, http.client.HTTPException):
            self._connection.close()
            self._connection = None
            raise
        seen: dict[str, str] = {}
        for name, value in response.getheaders():
            name = name.lower()
            seen[name if name not in seen else f"{name}-{len(seen)}"] = value
        kind = seen.get("content-type", "")
        return Reply(response.status, json.loads(raw) if raw and kind.startswith(JSON) else raw.decode(), seen)

    def get(self, path: str, **more: str) -> Any:
        reply = self.call("GET", path, **more)
        assert reply.code == 200, reply
        return reply.body

    def create(self, path: str, body: object) -> Any:
        reply = self.call("POST", path, body)
        assert reply.code == 201, reply
        return reply.body

    def patch(self, path: str, body: object, type_: str = MERGE) -> Any:
        reply = self.call("PATCH", path, body, type_=type_)
        assert reply.code in (200, 201), reply
        return reply.body

    @contextmanager
    def watch(self, path: str, accept: str = JSON) -> Iterator[Iterator[Any]]:
        """The events of a watch, as they come."""
        connection = self.connect()
        try:
            connection.request("GET", path, headers=self._headers({"Accept": accept}))
            response = connection.getresponse()
            assert response.status == 200, response.read()
            yield (json.loads(line) for line in response)
        finally:
            connection.close()


def config_map(name: str, namespace: str = "default", **data: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": data,
    }


def pod(name: str, **spec: object) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "image": "engine"}], **spec},
    }
