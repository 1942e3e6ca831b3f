"""Both servers side by side, started alike: our definitions installed, the same users, nothing else."""

from __future__ import annotations

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
        ours = Endpoint(server.kubeconfig, TOKENS)
        stack.callback(ours.close)
        _install(real)
        yield Pair(ours, real)


@contextmanager
def kube_apiserver(binaries: Path, root: Path) -> Iterator[Endpoint]:
    """etcd and kube-apiserver with nothing in them, until the end of the block."""
    root.mkdir(parents=True)
    (root / "tokens.csv").write_text(f'{ADMIN},admin,admin,"system:masters"\n{USERS}')
    with running_plane(binaries, root) as plane:
        endpoint = Endpoint(plane.kubeconfig, TOKENS)
        try:
            yield endpoint
        finally:
            endpoint.close()


def _install(real: Endpoint) -> None:
    """Our definitions, and wait until they are served."""
    for path in sorted(CRDS.glob("*.yaml")):
        answer = real.send("POST", DEFINITIONS, path.read_bytes(), {"Content-Type": "application/yaml"})
        assert answer.status == 201, answer
    deadline = time.monotonic() + 30
    while not all(_served(real, yaml.safe_load(path.read_bytes())) for path in CRDS.glob("*.yaml")):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def _served(real: Endpoint, definition: dict) -> bool:  # type: ignore[type-arg]
    spec = definition["spec"]
    return (
        real.send("GET", f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}").status == 200
    )
