"""One API server as the tests see it: bytes out, status, headers and JSON back, over one kept connection.

Deliberately not our client: what is compared is the wire.
"""

from __future__ import annotations

import http.client
import json
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from modelplane.kube.kubeconfig import Kubeconfig


@dataclass(frozen=True)
class Answer:
    """``body`` is decoded JSON, or text where it is not JSON; of a watch the list of its events."""

    status: int
    headers: Mapping[str, str]
    body: Any


class Endpoint:
    """``tokens`` are the users beside the administrator."""

    def __init__(
        self, kubeconfig: Path, tokens: Mapping[str, str], forget: Callable[[Endpoint], None] | None = None
    ) -> None:
        """``forget`` makes the server forget its past."""
        config = Kubeconfig.load(kubeconfig)
        address = urlsplit(config.server)
        assert address.hostname
        assert address.port
        trusted = ssl.create_default_context(cadata=config.ca_data)
        trusted.check_hostname = False
        self._connect = lambda: http.client.HTTPSConnection(
            str(address.hostname), address.port, context=trusted, timeout=60
        )
        self._connection = self._connect()
        self._forget = forget
        self._tokens = {"admin": config.token, **tokens}

    def send(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        user: str | None = "admin",
    ) -> Answer:
        """One request; no ``user`` is nobody. A connection that the server closed is opened again, once."""
        every = {"Accept": "application/json", **(headers or {})}
        if user is not None:
            every["Authorization"] = f"Bearer {self._tokens.get(user, user)}"
        try:
            return self._exchange(method, path, body, every)
        except (http.client.RemoteDisconnected, http.client.CannotSendRequest, ConnectionError, ssl.SSLError):
            # Both servers close a connection that was idle for minutes, which is seen as one of these by who writes next.
            self.close()
            return self._exchange(method, path, body, every)

    def fetch(self, path: str, accept: str) -> tuple[str, bytes]:
        """Content type and bytes of a document in a form that is not JSON."""
        headers = {"Accept": accept, "Authorization": f"Bearer {self._tokens['admin']}"}
        self._connection.request("GET", path, headers=headers)
        response = self._connection.getresponse()
        body = response.read()
        assert response.status == 200, body
        return response.headers["content-type"], body

    def _exchange(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Answer:
        self._connection.request(method, path, body, dict(headers))
        response = self._connection.getresponse()
        return Answer(response.status, _headers(response), _decoded(response.read()))

    def watch(
        self, path: str, events: int | None, headers: Mapping[str, str] | None = None, ends: str | None = None
    ) -> Answer:
        """The first ``events`` events, or those up to the object named ``ends``; fewer when the server ends the watch first."""
        connection = self._connect()
        every = {"Accept": "application/json", **(headers or {}), "Authorization": f"Bearer {self._tokens['admin']}"}
        try:
            connection.request("GET", path, headers=every)
            response = connection.getresponse()
            if response.status != 200:
                return Answer(response.status, _headers(response), _decoded(response.read()))
            seen = []
            while (events is None or len(seen) < events) and (line := response.readline()):
                seen.append(json.loads(line))
                if ends is not None and seen[-1]["object"]["metadata"].get("name") == ends:
                    break
            return Answer(response.status, _headers(response), seen)
        finally:
            connection.close()

    def forget(self) -> None:
        assert self._forget, "this server cannot be made to forget"
        self._forget(self)

    def close(self) -> None:
        self._connection.close()
        self._connection = self._connect()


def until(condition: Callable[[], object], within: float = 60.0) -> Any:
    """The first true value."""
    deadline = time.monotonic() + within
    while not (seen := condition()):
        assert time.monotonic() < deadline, f"still {seen!r} after {within:g} s"
        time.sleep(0.05)
    return seen


def _headers(response: http.client.HTTPResponse) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in response.getheaders():
        key = name.lower()
        found[key] = f"{found[key]}, {value}" if key in found else value
    return found


def _decoded(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return body.decode(errors="replace")
