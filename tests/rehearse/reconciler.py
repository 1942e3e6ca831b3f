"""A running reconciler of deployments over a fake API server, with the real planner behind a counter."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from modelplane.api import inference_cluster, model_replica
from modelplane.api.meta import Key, Object
from modelplane.compose import model_deployment
from modelplane.compose.contract import Host
from modelplane.control.caches import Caches
from modelplane.control.index import Parent
from modelplane.control.ledger import Ledger
from modelplane.control.queue import Rank
from modelplane.control.reconcile import Reconciler
from modelplane.plan import Fleet, PlacementRequest, Plan, plan
from tests.kube.fake_api import FakeApi
from tests.rehearse import words

KINDS = (inference_cluster.KIND, model_deployment.KIND, model_replica.KIND)


class Running:
    """``plans`` counts calls of the planner by deployment."""

    def __init__(self, api: FakeApi, reconciler: Reconciler, ledger: Ledger, plans: Counter[Key]) -> None:
        self.api = api
        self.reconciler = reconciler
        self.ledger = ledger
        self.plans = plans

    async def settled(self, until: Callable[[], bool] = lambda: True, limit: float = 60) -> None:
        """Nothing is left to do."""
        calm = 0
        async with asyncio.timeout(limit):
            while calm < 3:
                await asyncio.sleep(0.005)
                calm = calm + 1 if self.reconciler.queue.idle and until() else 0


@asynccontextmanager
async def running(api: FakeApi) -> AsyncIterator[Running]:
    clock = lambda: time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())  # noqa: E731
    plans: Counter[Key] = Counter()

    def counted(fleet: Fleet, request: PlacementRequest) -> Plan:
        plans[request.key] += 1
        return plan(fleet, request)

    async with api.client() as client:
        caches = Caches(client, clock=clock, quiet=0.1)

        def rank(parent: Parent) -> Rank:
            made = (caches.get(parent.kind, parent.key) or {"metadata": {}})["metadata"].get("creationTimestamp", "")
            return (made, parent.key.namespace, parent.key.name)

        def wake(parent: Parent) -> None:
            reconciler.wake(parent)

        ledger = Ledger(caches, counted, wake)
        reconciler = Reconciler(
            client,
            caches,
            {model_deployment.KIND: model_deployment},
            host=lambda: Host(control_plane_uid="uid", now=clock()),
            clock=clock,
            now=time.time,
            placer=ledger,
            rank=rank,
        )
        ledger.start()
        task = asyncio.create_task(reconciler.run())
        try:
            yield Running(api, reconciler, ledger, plans)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await caches.close()


def stored(api: FakeApi, objects: list[Object]) -> None:
    """Put what is there before anybody watches, without a history."""
    plural = {kind.kind: f"{kind.kind.lower()}s" for kind in KINDS}
    for obj in objects:
        api.version += 1
        obj["metadata"] |= {"resourceVersion": str(api.version), "generation": 1}
        obj["metadata"].setdefault("uid", f"uid-{api.version}")
        key = (
            f"modelplane.ai/v1alpha1/{plural[obj['kind']]}",
            obj["metadata"].get("namespace", ""),
            obj["metadata"]["name"],
        )
        api.objects[key] = obj


def store_fleet(api: FakeApi, clusters: int, deployments: int) -> None:
    """A full fleet: each deployment has its one replica, around the clusters in turn."""
    stored(api, [words.inference_cluster(f"c{number:04}") for number in range(clusters)])
    asking = [words.deployment(f"d{number:04}") for number in range(deployments)]
    stored(api, asking)
    stored(api, [words.replica(one, f"c{at % clusters:04}") for at, one in enumerate(asking)])
