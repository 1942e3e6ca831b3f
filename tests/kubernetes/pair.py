"""Both servers side by side, started alike: our definitions installed, the same users, nothing else."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

import modelplane.api
from modelplane.server.testing import running_server
from tests.kubernetes.endpoint import Endpoint
from tests.kubernetes.plane import running_plane

CRDS: Final = Path(modelplane.api.__file__).parent / "crds"
TOKENS: Final = {"viewer": "token-of-viewer", "nobody": "token-of-nobody"}
ADMIN: Final = "token-of-admin"
USERS: Final = 'token-of-viewer,viewer,u-viewer,"readers,people"\ntoken-of-nobody,nobody,u-nobody\n'
DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
UNCACHED: Final = {"apiserver": ("--watch-cache-sizes=podtemplates#0", "--feature-gates=ListFromCacheSnapshot=false")}
"""Pod templates are read from etcd itself, so that kube-apiserver forgets them when etcd does: its cache outlives that."""

JSON: Final = {"Content-Type": "application/json"}


@dataclass(frozen=True)
class Pair:
    """``ours`` is the embedded server, ``real`` is kube-apiserver."""

    ours: Endpoint
    real: Endpoint


@contextmanager
def running_pair(binaries: Path, root: Path) -> Iterator[Pair]:
    with ExitStack() as stack:
        real = stack.enter_context(kube_apiserver(binaries, root / "real"))
        users = root / "users.csv"
        users.write_text(USERS)
        data = root / "ours"
        crds = ("--no-install-crds", "--crds", str(CRDS))
        server = stack.enter_context(running_server(data, *crds, "--token-file", str(users)))
        ours = Endpoint(server.kubeconfig, TOKENS, _outgrow)
        stack.callback(ours.close)
        _install(real)
        yield Pair(ours, real)


@contextmanager
def kube_apiserver(binaries: Path, root: Path) -> Iterator[Endpoint]:
    """etcd and kube-apiserver with nothing in them, until the end of the block."""
    root.mkdir(parents=True)
    (root / "tokens.csv").write_text(f'{ADMIN},admin,admin,"system:masters"\n{USERS}')
    with running_plane(binaries, root, flags=UNCACHED) as plane:
        etcd = json.loads((root / "ports.json").read_text())["etcd"]
        endpoint = Endpoint(plane.kubeconfig, TOKENS, lambda _: _compact(etcd))
        try:
            yield endpoint
        finally:
            endpoint.close()


def _outgrow(ours: Endpoint) -> None:
    """Write more than the log of changes keeps: 8 MB."""
    for number in range(10):
        big = {"metadata": {"generateName": "outgrow-"}, "data": {"x": str(number) * 1_000_000}}
        answer = ours.send("POST", "/api/v1/namespaces/default/configmaps", json.dumps(big).encode(), JSON)
        assert answer.status == 201, answer
        name = answer.body["metadata"]["name"]
        assert ours.send("DELETE", f"/api/v1/namespaces/default/configmaps/{name}").status == 200


def _compact(port: int) -> None:
    """Compact etcd up to now, by its JSON gateway."""

    def ask(path: str, body: dict[str, object]) -> dict[str, dict[str, str]]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        connection.request("POST", f"/v3/{path}", json.dumps(body), JSON)
        response = connection.getresponse()
        answer: dict[str, dict[str, str]] = json.loads(response.read())
        assert response.status == 200, answer
        return answer

    now = ask("maintenance/status", {})["header"]["revision"]
    ask("kv/compaction", {"revision": now, "physical": True})


def _install(real: Endpoint) -> None:
    """Our definitions, and wait until they are served."""
    for path in sorted(CRDS.glob("*.yaml")):
        answer = real.send("POST", DEFINITIONS, path.read_bytes(), {"Content-Type": "application/yaml"})
        assert answer.status == 201, answer
    deadline = time.monotonic() + 120
    while not all(_served(real, yaml.safe_load(path.read_bytes())) for path in CRDS.glob("*.yaml")):
        assert time.monotonic() < deadline, "kube-apiserver serves our definitions still not"
        time.sleep(0.1)


def _served(real: Endpoint, definition: dict) -> bool:  # type: ignore[type-arg]
    spec = definition["spec"]
    return (
        real.send("GET", f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}").status == 200
    )
