"""Failure is normal: whatever dies comes back, and callers notice only what was in flight on it."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from modelplane import processes
from modelplane.api.meta import condition_of
from tests.e2e.conftest import Fleet
from tests.e2e.traffic import Outcome, answering_pods, constant_rate, replica_of


def address(fleet: Fleet) -> str:
    return str(fleet.get("modelservice", "mock", "-n", "ml-team")["status"]["address"])


@contextmanager
def under_load(fleet: Fleet) -> Iterator[Outcome]:
    """Fifty requests a second, with enough of them before and after the block to tell."""
    with constant_rate(address(fleet)) as outcome:
        fleet.until("load", lambda: outcome.answered >= 25)
        yield outcome
        seen = outcome.answered
        fleet.until("load afterwards", lambda: outcome.answered >= seen + 50)


def killed(process: processes.Record) -> float:
    """SIGKILL; the time at which it was gone: with its last thread, and with that the sockets that they share."""
    os.kill(process.pid, signal.SIGKILL)
    if sys.platform == "linux":
        with contextlib.suppress(ProcessLookupError):  # it is gone already
            watched = os.pidfd_open(process.pid)
            assert select.select([watched], [], [], 30)[0]
            os.close(watched)
    while process.alive:
        time.sleep(0.01)
    return time.monotonic()


def lost(outcome: Outcome, gone: float) -> list[str]:
    """What failed although it was sent after that: not in flight on what died.

    Health checks have a second. With many others for each core they miss it, whatever dies, and callers are told that no
    endpoint is ready: on such a machine that is not judged.
    """
    later = [what for when, what in outcome.failures if when > gone]
    return [what for what in later if not (starved() and "no_ready_endpoint" in what)]


def starved() -> bool:
    """Whether some process waited for a processor most of the last ten seconds, as while a whole API server starts on two cores; or
    many do for each core, where the kernel does not tell."""
    with contextlib.suppress(OSError):
        some = Path("/proc/pressure/cpu").read_text().split("avg10=")[1]
        if float(some.split()[0]) > 50:
            return True
    return os.getloadavg()[0] > 4 * (os.cpu_count() or 1)


EVERYWHERE = ("operator", "gateway")
EMBEDDED = ("apiserver", "controllers", "cluster-gpu-eu-west", "cluster-gpu-us-east")
"""One process each: the control cluster's API server, its controllers, and whole simulated clusters."""
PARTS = ("etcd", "kube-apiserver", "kube-controller-manager")
REAL = (
    *(f"control/{part}" for part in PARTS),
    *(f"clusters/{c}/{part}" for c in ("gpu-eu-west", "gpu-us-east") for part in (*PARTS, "kube-scheduler")),
    *(f"{c}-{part}" for c in ("gpu-eu-west", "gpu-us-east") for part in ("controllers", "nodes")),
)
"""Real clusters in their processes; ours beside them are two for each."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "unit" in metafunc.fixturenames:
        real = metafunc.config.getoption("kubernetes") is not None
        one_region = [unit for unit in (REAL if real else EMBEDDED) if "us-east" not in unit]
        metafunc.parametrize("unit", [*EVERYWHERE, *one_region])


def test_a_killed_process_of_the_control_plane_costs_no_request(two_regions: Fleet, unit: str) -> None:
    fleet = two_regions
    engines = fleet.engines()
    with under_load(fleet) as outcome:
        killed = fleet.record(unit)
        os.kill(killed.pid, signal.SIGKILL)
        fleet.until(f"{unit} running again", lambda: fleet.sessions().get(fleet.name(unit)) not in (None, killed))
        fleet.until("the API answering", lambda: "mock-demo" in fleet.kubectl("get", "md", "-A", check=False))
        for region in ("gpu-eu-west", "gpu-us-east"):
            nodes = ("--context", region, "get", "nodes", "--no-headers")
            fleet.until(f"{region} answering", lambda: " Ready " in fleet.kubectl(*nodes, check=False))  # noqa: B023
    assert not lost(outcome, 0), outcome.failures[:5]
    assert fleet.engines() == engines, "engines and proxies are adopted, not started anew"


def test_a_killed_envoy_of_a_cluster_costs_only_what_was_in_flight_on_it(two_regions: Fleet) -> None:
    fleet = two_regions
    name, envoy = fleet.proxy("gpu-eu-west")
    with under_load(fleet) as outcome:
        gone = killed(envoy)
        fleet.until("that Envoy running again", lambda: fleet.sessions().get(name) not in (None, envoy))
    late = lost(outcome, gone)
    assert not late, f"requests sent after the end of that Envoy have another region to go to: {late[:5]}"


@pytest.mark.skipif(
    sys.platform != "linux", reason="elsewhere a port is the proxy's alone, and callers are refused meanwhile"
)
def test_the_killed_envoy_of_the_front_door_costs_only_what_was_in_flight_on_it(two_regions: Fleet) -> None:
    """Nobody else has its port: who connects while it is away waits until the next one takes over."""
    fleet = two_regions
    for _ in range(3):
        name, envoy = fleet.proxy("control")
        with under_load(fleet) as outcome:
            gone = killed(envoy)
            fleet.until("that Envoy running again", lambda: fleet.sessions().get(name) not in (None, envoy))  # noqa: B023
        late = lost(outcome, gone)
        assert not late, f"a request that was sent when that Envoy was gone found nobody: {late[:5]}"


def test_a_killed_engine_loses_no_later_request(two_regions: Fleet) -> None:
    fleet = two_regions
    name, engine = next((n, r) for n, r in fleet.engines().items() if "gpu-us-east" in n)
    with under_load(fleet) as outcome:
        gone = killed(engine)
        fleet.until("the engine running again", lambda: fleet.sessions().get(name) not in (None, engine))
    late = lost(outcome, gone)
    assert not late, late[:5]
    fleet.until("both answering", lambda: len({replica_of(p) for p in answering_pods(address(fleet), 2)}) == 2)


def test_a_lost_cluster_is_a_condition_and_keeps_serving(two_regions: Fleet) -> None:
    fleet = two_regions
    cluster = fleet.record("cluster-gpu-us-east" if fleet.binaries is None else "clusters/gpu-us-east/kube-apiserver")
    os.kill(cluster.pid, signal.SIGSTOP)  # dead to everybody who talks to it, yet not restarted
    try:

        def reachable() -> object:
            return condition_of(fleet.get("inferencecluster", "gpu-us-east"), "Reachable")

        lost = fleet.until("Reachable False", lambda: (c := reachable()) and c.status == "False" and c, within=10)  # type: ignore[attr-defined]
        assert lost.reason == "Unreachable"
        assert lost.message, "it says what to do"
        names = {r["metadata"]["name"] for r in fleet.get("modelreplicas", "-n", "ml-team")["items"]}
        assert names == {"mock-demo-be445", "mock-demo-49b71"}, "nothing is given up because an API does not answer"
        replica = fleet.get("modelreplica", "mock-demo-49b71", "-n", "ml-team")
        ready = condition_of(replica, "Ready")
        assert ready is not None
        assert ready.status == "Unknown", "what cannot be seen is not known"
        assert {replica_of(p) for p in answering_pods(address(fleet), 4)} == names, "its engines go on serving"
    finally:
        os.kill(cluster.pid, signal.SIGCONT)
    fleet.kubectl("wait", "--for=condition=Ready", "inferencecluster/gpu-us-east", "--timeout=30s")
    fleet.kubectl("wait", "--for=condition=Ready", "modeldeployment/mock-demo", "-n", "ml-team", "--timeout=30s")


def test_the_whole_control_plane_killed_while_serving_carries_on_from_its_store(two_regions: Fleet) -> None:
    fleet = two_regions
    uids = {r["metadata"]["name"]: r["metadata"]["uid"] for r in fleet.get("modelreplicas", "-n", "ml-team")["items"]}
    engines = fleet.engines()
    with under_load(fleet) as outcome:
        supervisor = processes.recall(fleet.layout.supervisor)
        assert supervisor is not None
        os.kill(supervisor.pid, signal.SIGKILL)
        for unit in (*EVERYWHERE, *(EMBEDDED if fleet.binaries is None else REAL)):
            os.kill(fleet.record(unit).pid, signal.SIGKILL)
        served = outcome.answered
        fleet.until("answers without any control plane", lambda: outcome.answered > served + 50)
        fleet.up()
    assert not outcome.failures, outcome.failures[:5]
    fleet.kubectl("wait", "--for=condition=Ready", "modeldeployment/mock-demo", "-n", "ml-team", "--timeout=60s")
    after = {r["metadata"]["name"]: r["metadata"]["uid"] for r in fleet.get("modelreplicas", "-n", "ml-team")["items"]}
    assert after == uids, "the same objects, none twice"
    assert fleet.engines() == engines
