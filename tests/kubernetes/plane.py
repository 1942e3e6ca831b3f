"""A real control plane for the length of a block: etcd, kube-apiserver, and the units beside it that a suite needs.

etcd writes without fsync: the referee's data outlives no test.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from modelplane.local import ports
from modelplane.local.kubernetes import ControlPlane, Ports
from tests.kubernetes.endpoint import Endpoint

Flags = Mapping[str, Sequence[str]]
"""Unit (`apiserver`, `scheduler`, `controller_manager`) to arguments beside those of the product."""

PATIENCE: Final = 120.0


@contextmanager
def running_plane(binaries: Path, root: Path, *units: str, flags: Flags | None = None) -> Iterator[ControlPlane]:
    """etcd and kube-apiserver, then ``units``; what `root` holds already (tokens, keys) is kept."""
    root.mkdir(parents=True, exist_ok=True)
    needs = ("etcd", "kube-apiserver", *(f"kube-{unit.replace('_', '-')}" for unit in units))
    kept = Ports.of(ports.keep(root / "ports.json", Ports.names()))
    plane = ControlPlane(binaries, root, kept, durable=False, needs=needs)
    plane.prepare()
    with ExitStack() as running:

        def start(unit: str) -> None:
            found = getattr(plane, unit)()
            log = running.enter_context((root / f"{found.name}.log").open("wb"))
            argv = (*found.argv, *(flags or {}).get(unit, ()))
            process = subprocess.Popen(argv, stdout=log, stderr=subprocess.STDOUT)
            running.callback(process.wait)
            running.callback(process.terminate)

        start("etcd")
        start("apiserver")
        deadline = time.monotonic() + PATIENCE
        while not (plane.write_kubeconfig() and _ready(plane)):
            assert time.monotonic() < deadline, f"kube-apiserver is not ready; its log is in {root}"
            time.sleep(0.1)
        for unit in units:
            start(unit)
        yield plane


def _ready(plane: ControlPlane) -> bool:
    endpoint = Endpoint(plane.kubeconfig, {})
    try:
        return endpoint.send("GET", "/readyz").status == 200
    except OSError:
        return False
    finally:
        endpoint.close()
