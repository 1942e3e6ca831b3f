"""The whole fleet on real Kubernetes does what it does on our own servers: same placements, names and answers."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from modelplane.errors import PermanentError
from modelplane.local import network
from tests.kubernetes.binaries import WITHOUT, folder

EXAMPLES = Path(__file__).parents[2] / "examples" / "two-regions"
FIRST_ANSWER = 40.0


def modelplane(*words: str, within: float = 240) -> str:
    """What a verb prints; fails the test with that when the verb fails."""
    argv = [sys.executable, "-m", "modelplane", *words]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=within, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(name="binaries", scope="module")
def _binaries() -> str:
    found = folder()
    if found is None:
        pytest.skip(WITHOUT)
    if sys.platform != "linux" or not (shutil.which("unshare") and shutil.which("ip")):
        pytest.skip("network namespaces need Linux with util-linux and iproute2")
    user = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    if subprocess.run(["unshare", *user, "--net", "true"], capture_output=True, check=False).returncode:
        pytest.skip("this user may not make a network namespace")
    return str(found)


TOLD = re.compile(r"  \d: |The replica that stayed|It moved|  ReplicasScheduled|  \d of|Replicas are on|  ml-team/")


def told(demo: str) -> tuple[list[str], list[str]]:
    """What the demo says about placements, names and answers, before and after it scales down.

    Left out is what every run draws anew: pods, ports, which replica the proxy asks first, and which of two replicas of one
    second stays; from there on clusters and replicas are named by their part in the story.
    """
    before, _, after = demo.partition("The replica that stayed is on ")
    stayed, _, after = after.partition(".")
    other = {"gpu-eu-west": "gpu-us-east", "gpu-us-east": "gpu-eu-west"}[stayed]
    after = re.sub(
        "mock-demo-[0-9a-f]{5}-mock-[0-9a-f]{5}", "ENGINE", after.replace(stayed, "DRAINED").replace(other, "OTHER")
    )
    after = re.sub("Replicas are on .* and .*;", "Replicas are on both;", after)
    after = re.sub("mock-demo-[0-9a-f]{5}", "REPLICA", after)
    return _lines(before), _lines(after)


def _lines(text: str) -> list[str]:
    lines = [
        re.sub(r"http://\S+", "URL", re.sub(r"-[0-9a-z]+-[0-9a-z]{5}:", "-POD:", line)) for line in text.splitlines()
    ]
    kept = (line.split() for line in lines if TOLD.match(line))
    # Of a row of the last table what the object is and where; its note may say that a status is still on its way.
    rows = (words[:2] if words[0].startswith("ml-team/") else words for words in kept)
    return sorted(re.sub(r"^\d: ", "", " ".join(words)) for words in rows)


@pytest.mark.timeout(400)
def test_the_demo_tells_the_same_story_on_real_kubernetes(binaries: str) -> None:
    began = time.monotonic()
    real = modelplane("demo", "--kubernetes", binaries)
    assert time.monotonic() - began < 200
    ours = modelplane("demo")
    assert told(real) == told(ours)
    assert len(told(real)[0]) == 6
    assert len(told(real)[1]) > 8
    first = re.search(r"first answered request: ([\d.]+) s", real)
    assert first
    assert float(first[1]) < FIRST_ANSWER


@pytest.fixture(name="fleet")
def _fleet(binaries: str, tmp_path: Path) -> Iterator[str]:
    modelplane("up", "--data-dir", str(tmp_path), "--kubernetes", binaries, "--detach")
    try:
        yield str(tmp_path)
    finally:
        modelplane("down", "--data-dir", str(tmp_path), "--purge")


def shell(fleet: str, *words: str) -> str:
    return modelplane("shell", "--data-dir", fleet, "--", *words)


@pytest.mark.timeout(400)
def test_a_fleet_that_was_left_running_is_reached_by_the_shell(fleet: str) -> None:
    shell(fleet, "kubectl", "apply", "-f", str(EXAMPLES))
    shell(fleet, "kubectl", "wait", "modelservice/mock", "-n", "ml-team", "--for=condition=Ready", "--timeout=90s")
    pods = shell(fleet, "kubectl", "--context=gpu-us-east", "get", "pods", "-A", "-l", "modelplane.ai/serving", "-o",
                 "jsonpath={range .items[*]}{.metadata.namespace} {.metadata.name} {.status.podIP}{end}")  # fmt: skip
    namespace, name, address = pods.split()
    assert address in {str(ip) for ip in network.pods_of(1)} | {str(ip) for ip in network.pods_of(0)}
    log = shell(fleet, "kubectl", "--context=gpu-us-east", "logs", "-n", namespace, name)
    assert "ml-team/mock-demo" in log
    claims = shell(fleet, "kubectl", "--context=gpu-us-east", "get", "resourceclaims", "-n", namespace)
    assert "allocated,reserved" in claims
    assert not network.inside()


def test_every_cluster_has_a_pod_range_of_its_own_beside_the_gateways() -> None:
    ranges = [network.pods_of(position) for position in range(63)]
    assert not any(one.overlaps(other) for one in ranges for other in ranges if one is not other)
    assert all(one.subnet_of(network.RANGE) for one in ranges)
    assert not any(IPv4Network(f"{network.GATEWAYS}/32").subnet_of(one) for one in ranges)
    with pytest.raises(PermanentError, match="at most 63 clusters"):
        network.pods_of(63)
