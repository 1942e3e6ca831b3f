"""The whole fleet on real Kubernetes does what it does on our own servers: same placements, names and answers."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network
from itertools import pairwise
from pathlib import Path

import pytest

from modelplane import processes
from modelplane.errors import PermanentError
from modelplane.local import network
from modelplane.local.layout import Layout
from tests.e2e.traffic import replica_of
from tests.kubernetes.binaries import pinned
from tests.kubernetes.unprivileged import NOBODY, unprivileged

EXAMPLES = Path(__file__).parents[2] / "examples" / "two-regions"
FIRST_ANSWER = 40.0


def modelplane(*words: str, prefix: Sequence[str] = (), within: float = 240) -> str:
    """What a verb prints; fails the test with that when the verb fails."""
    argv = [*prefix, sys.executable, "-m", "modelplane", *words]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=within, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(name="binaries", scope="module")
def _binaries(binaries: Path) -> Path:
    if sys.platform != "linux" or not (shutil.which("unshare") and shutil.which("ip")):
        pytest.skip("network namespaces need Linux with util-linux and iproute2")
    try:
        network.allowed(["unshare"], ["--user", "--map-root-user"], ["--net"])
    except PermanentError as error:
        pytest.skip(f"this user may not make a network namespace ({error})")
    return binaries


@dataclass(frozen=True)
class Story:
    """What the demo says that may not depend on who serves the API.

    Everything else in its words is drawn anew by every run (pods, ports, ages) or read at a moment (columns of tables that a
    status still has to reach). Which replica answers first is the proxy's to choose; that they answer in turn is promised.
    """

    answered: frozenset[str]
    in_turn: bool
    answers: tuple[str, ...]
    drained: str
    moved: tuple[str, str]
    answered_after: str
    shortfall: tuple[str, str, str]
    back: tuple[str, str, str]
    replicas: frozenset[tuple[str, str]]
    deployment: tuple[str, str]
    path: str

    @classmethod
    def of(cls, demo: str) -> Story:
        """Raises AssertionError where a sentence is not there exactly once."""

        def told(pattern: str) -> tuple[str, ...]:
            found = re.findall(pattern, demo, re.MULTILINE)
            assert len(found) == 1, f"{pattern!r} is there {len(found)} times:\n{demo}"
            return found[0] if isinstance(found[0], tuple) else (found[0],)

        *asked, after = re.findall(r"^  \d+: (\S+): (.*)$", demo, re.MULTILINE)
        by = [replica_of(pod) for pod, _ in asked]
        return cls(
            answered=frozenset(by),
            in_turn=all(one != two for one, two in pairwise(by)),
            answers=tuple(words for _, words in (*asked, after)),
            drained=told(r"^The replica that stayed is on (\S+)\. ")[0],
            moved=_two(told(r"^It moved from (\S+) to (\S+), and the address stayed the same:")),
            answered_after=replica_of(after[0]),
            shortfall=_three(told(r"^  ReplicasScheduled = (\S+), reason (\S+)\n  (.+)$")),
            back=_three(told(r"^Replicas are on (\S+) and (\S+); the one on (\S+) was not touched\.")),
            replicas=frozenset(re.findall(r"^  ml-team/(mock-demo-[0-9a-f]{5}) +(gpu-\S+)", demo, re.MULTILINE)),
            deployment=_two(told(r"^  ml-team/mock-demo +(\d+) +(\d+) ")),
            path=told(r"^  ml-team/mock +\S+ +http://[^/ ]+(/\S+)")[0],
        )


def _two(words: tuple[str, ...]) -> tuple[str, str]:
    one, two = words
    return one, two


def _three(words: tuple[str, ...]) -> tuple[str, str, str]:
    one, two, three = words
    return one, two, three


@pytest.mark.timeout(400)
def test_the_demo_tells_the_same_story_on_real_kubernetes(
    binaries: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    busy = os.getloadavg()[0] > 2 * (os.cpu_count() or 1)
    said = modelplane("demo", "--kubernetes", str(binaries))
    real, ours = Story.of(said), Story.of(modelplane("demo"))
    assert real == ours
    assert list(tmp_path.glob("modelplane-demo-*")) == [], "it cleans up after itself"
    _leads_inside(said, binaries)
    assert real.replicas == {("mock-demo-be445", "gpu-eu-west"), ("mock-demo-49b71", "gpu-us-east")}
    assert real.answered == {name for name, _ in real.replicas}
    assert real.in_turn
    assert (len(real.answers), real.moved) == (7, ("gpu-eu-west", "gpu-us-east"))
    first = re.search(r"first answered request: ([\d.]+) s", said)
    assert first
    if not busy:  # with three others for each core, time is about them
        assert float(first[1]) < FIRST_ANSWER


def _leads_inside(said: str, binaries: Path) -> None:
    """Every hint of the demo works from another terminal, which is outside the fleet's network."""
    assert "export KUBECONFIG" not in said
    door = re.search(r"^  (modelplane shell --data-dir \S+)     # in another terminal", said, re.MULTILINE)
    assert door
    assert f"  {door[1]} -- curl http://{network.GATEWAYS}" in said
    assert f"  $ modelplane up --kubernetes {binaries} --detach\n" in said


class Fleet:
    """One that was left running by a user without rights."""

    def __init__(self, root: Path, prefix: Sequence[str], binaries: Path) -> None:
        self.root = root
        self.binaries = binaries
        self._prefix = prefix

    def modelplane(self, verb: str, *words: str) -> str:
        return modelplane(verb, "--data-dir", str(self.root), *words, prefix=self._prefix)

    def up(self) -> str:
        return self.modelplane("up", "--kubernetes", str(self.binaries), "--detach")

    def shell(self, *words: str) -> str:
        return self.modelplane("shell", "--", *words)


@pytest.fixture(name="fleet", scope="module")
def _fleet(binaries: Path) -> Iterator[Fleet]:
    with unprivileged(binaries) as (prefix, home):
        fleet = Fleet(home / "fleet", prefix, binaries)
        try:
            said = fleet.up()
            assert said.splitlines()[-1] == f"reach it with: modelplane shell --data-dir {fleet.root}"
            yield fleet
        finally:
            fleet.modelplane("down", "--purge")
        assert not fleet.root.exists()


@pytest.mark.timeout(400)
def test_a_user_without_rights_leaves_a_fleet_running_and_reaches_it_by_the_shell(fleet: Fleet) -> None:
    fleet.shell("kubectl", "apply", "-f", str(EXAMPLES))
    # The service is Ready with its first replica; the pod that is looked at may be the other's.
    for kind in ("modeldeployment/mock-demo", "modelservice/mock"):
        fleet.shell("kubectl", "wait", kind, "-n", "ml-team", "--for=condition=Ready", "--timeout=90s")
    pods = fleet.shell("kubectl", "--context=gpu-us-east", "get", "pods", "-A", "-l", "modelplane.ai/serving", "-o",
                       "jsonpath={range .items[*]}{.metadata.namespace} {.metadata.name} {.status.podIP}{end}")  # fmt: skip
    namespace, name, address = pods.split()
    assert address in {str(ip) for ip in network.pods_of(1)}
    log = fleet.shell("kubectl", "--context=gpu-us-east", "logs", "-n", namespace, name)
    assert "ml-team/mock-demo" in log
    claims = fleet.shell("kubectl", "--context=gpu-us-east", "get", "resourceclaims", "-n", namespace)
    assert "allocated,reserved" in claims
    assert "gpu-us-east" in fleet.shell("modelplane", "status")
    assert not network.inside()
    supervisor = processes.recall(Layout(fleet.root).supervisor)
    assert supervisor is not None
    assert Path(f"/proc/{supervisor.pid}").stat().st_uid == (os.geteuid() or NOBODY)
    assert os.readlink(f"/proc/{supervisor.pid}/ns/user") != os.readlink("/proc/self/ns/user")


@pytest.mark.timeout(400)
def test_a_fleet_whose_supervisor_was_killed_is_reached_and_taken_over_in_its_network(fleet: Fleet) -> None:
    layout = Layout(fleet.root)
    kubernetes = json.loads(layout.kubernetes_ports.read_text())
    assert not {"control", "cluster-gpu-us-east"} & set(json.loads(layout.ports.read_text())), "nobody serves those"
    supervisor = processes.recall(layout.supervisor)
    assert supervisor is not None
    os.kill(supervisor.pid, signal.SIGKILL)
    while supervisor.alive:
        time.sleep(0.01)
    left = dict(layout.running())
    assert "ml-team" in fleet.shell("kubectl", "get", "namespaces"), "all others go on, and the shell finds them"
    fleet.up()
    running = dict(layout.running())
    heir = running.pop(layout.supervisor)
    assert running == left, "none of them was started anew"
    assert len({os.readlink(f"/proc/{one.pid}/ns/net") for one in (heir, *running.values())}) == 1
    assert json.loads(layout.kubernetes_ports.read_text()) == kubernetes
    assert "ml-team" in fleet.shell("kubectl", "get", "namespaces")


@pytest.mark.timeout(400)
def test_who_looks_for_such_a_fleet_in_the_wrong_way_is_told_the_right_one(fleet: Fleet) -> None:
    """Last of those that share it: it takes the fleet down."""
    with pytest.raises(AssertionError, match="from `modelplane shell` alone"):
        fleet.modelplane("status")
    fleet.modelplane("down")
    with pytest.raises(AssertionError, match=rf"(?s)fleet on Kubernetes {re.escape(pinned())}.*down --purge"):
        fleet.modelplane("up", "--detach")


def test_a_user_who_may_not_make_a_network_is_told_what_to_allow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for tool, says in (("unshare", "echo 'unshare failed: Operation not permitted' >&2; exit 1"), ("ip", "exit 0")):
        (tmp_path / tool).write_text(f"#!/bin/sh\n{says}\n")
        (tmp_path / tool).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PermanentError, match=r"not permitted.*max_user_namespaces"):
        network.enter(["true"])


def test_every_cluster_has_a_pod_range_of_its_own_beside_the_gateways() -> None:
    ranges = [network.pods_of(position) for position in range(63)]
    assert not any(one.overlaps(other) for one in ranges for other in ranges if one is not other)
    assert all(one.subnet_of(network.RANGE) for one in ranges)
    assert not any(IPv4Network(f"{network.GATEWAYS}/32").subnet_of(one) for one in ranges)
    with pytest.raises(PermanentError, match="at most 63 clusters"):
        network.pods_of(63)
