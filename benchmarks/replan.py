"""How long a change takes from the API server to the plans that it calls for, through the running reconciler.

A thousand clusters with two thousand deployments placed on them, over an API server in memory. One cluster's status changes; the
clock runs from the write until the last deployment that it can affect is planned again. Wall-clock time of one process.
"""

from __future__ import annotations

import asyncio
import logging
import statistics
import time

from tests.kube.fake_api import FakeApi
from tests.rehearse.reconciler import Running, running, store_fleet
from tests.rehearse.words import inference_cluster

from modelplane.api.meta import Key

CLUSTERS, DEPLOYMENTS, CHANGES = 1_000, 2_000, 20


async def measure() -> tuple[float, float, float]:
    """Median and largest milliseconds of a change, and deployments that are planned again for one."""
    # The replicas are nobody's, which every pass says.
    logging.getLogger("modelplane").setLevel(logging.ERROR)
    async with FakeApi() as api:
        store_fleet(api, CLUSTERS, DEPLOYMENTS)
        async with running(api) as plane:
            await plane.settled(lambda: len(plane.plans) == DEPLOYMENTS, limit=600)
            changes = [await _change(plane, number) for number in range(CHANGES)]
    latencies = [milliseconds for milliseconds, _ in changes]
    return statistics.median(latencies), max(latencies), statistics.mean(planned for _, planned in changes)


async def _change(plane: Running, number: int) -> tuple[float, int]:
    name = f"c{number * CLUSTERS // CHANGES:04}"
    there = {Key(one.key.namespace, one.deployment) for one in plane.ledger.fleet().on(name)}
    plane.plans.clear()
    began = time.perf_counter()
    await plane.api.put(inference_cluster(name, labels={"note": "changed"}))
    while not there <= set(plane.plans):
        await asyncio.sleep(0)
    took = (time.perf_counter() - began) * 1e3
    await plane.settled()
    return took, len(plane.plans)
