"""A control plane over fake clusters: what the tests of the reconciler share.

Composers are toys: a Toy becomes ConfigMaps, here or on a cluster, as its spec says. Everything waits on conditions.
"""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from modelplane.api.meta import GVK, Object, condition_of
from modelplane.compose.contract import After, Answer, Chart, Child, Composition, Host, Read, World
from modelplane.control.caches import Caches
from modelplane.control.charts import SimulatedCharts
from modelplane.control.clusters import Clusters
from modelplane.control.deletion import Bounds
from modelplane.control.reconcile import Reconciler
from modelplane.errors import PermanentError
from tests.kube.fake_api import FakeApi

TOY = GVK("toys.example.com", "v1", "Toy")
CONFIG_MAP = GVK("", "v1", "ConfigMap")
CLUSTER = GVK("modelplane.ai", "v1alpha1", "InferenceCluster")
CHART = Chart(
    key="chart",
    repository="https://charts.example.com",
    name="operator",
    version="v1.2.3",
    release="mp-operator",
    namespace="operator-system",
    values={},
    target="east",
)
UID = "11111111-2222-3333-4444-555555555555"


async def until(condition: Callable[[], Any], limit: float = 10) -> None:
    """Wait for what other tasks of this loop bring about."""
    async with asyncio.timeout(limit):
        while not condition():
            await asyncio.sleep(0.005)


class Toys:
    """The toy composer. ``spec.parts`` maps a child key to its data; ``spec.cluster`` is where they go."""

    KIND = TOY

    def __init__(self) -> None:
        self.passes = 0
        self.override: Callable[[Object, World], Composition] | None = None
        self.order: Sequence[After] = ()

    def reads(self, xr: Object, known: Mapping[Read, Answer]) -> frozenset[Read]:
        wanted = {
            Read(kind=CONFIG_MAP, namespace=xr["metadata"]["namespace"], name=name, project=("data",))
            for name in xr["spec"].get("reads", ())
        }
        if xr["spec"].get("bad"):
            raise PermanentError(f"spec.bad is {xr['spec']['bad']!r}; take it away")
        return frozenset(wanted)

    def compose(self, xr: Object, world: World) -> Composition:
        self.passes += 1
        if self.override is not None:
            return self.override(xr, world)
        return Composition(children=self.children(xr), status={"parts": len(xr["spec"].get("parts", {}))})

    def children(self, xr: Object) -> list[Child | Chart]:
        target = xr["spec"].get("cluster")
        return [
            Child(key=key, target=target, manifest=config_map(f"{xr['metadata']['name']}-{key}", data=data))
            for key, data in xr["spec"].get("parts", {}).items()
        ]

    def deletion_order(self, xr: Object) -> Sequence[After]:
        return self.order


def config_map(name: str, namespace: str = "ns", data: Mapping[str, str] | None = None) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": dict(data or {}),
    }


def toy(name: str = "a", **spec: Any) -> Object:
    return {
        "apiVersion": "toys.example.com/v1",
        "kind": "Toy",
        "metadata": {"name": name, "namespace": "ns"},
        "spec": spec,
    }


def inference_cluster(name: str) -> Object:
    spec = {"cluster": {"source": "Existing", "existing": {"secretRef": {"name": f"{name}-kubeconfig"}}}}
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "InferenceCluster",
        "metadata": {"name": name},
        "spec": spec,
    }


def kubeconfig_secret(name: str, text: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": f"{name}-kubeconfig", "namespace": "modelplane-system"},
        "data": {"kubeconfig": base64.b64encode(text.encode()).decode()},
    }


class Plane:
    """A running control plane; ``api`` is the control cluster, ``remote`` the cluster east."""

    def __init__(
        self, api: FakeApi, remote: FakeApi, caches: Caches, clusters: Clusters, reconciler: Reconciler
    ) -> None:
        self.api = api
        self.remote = remote
        self.caches = caches
        self.clusters = clusters
        self.reconciler = reconciler

    def toy(self, name: str = "a") -> Object:
        found = self.api.find("Toy", name, "ns")
        assert found is not None
        return found

    def says(self, kind: str, status: str, reason: str | None = None, name: str = "a") -> bool:
        """Whether the toy's condition is that, about its newest generation."""
        obj = self.api.find("Toy", name, "ns")
        condition = condition_of(obj, kind) if obj else None
        return (
            obj is not None
            and condition is not None
            and condition.status == status
            and reason in (None, condition.reason)
            and condition.observed_generation == obj["metadata"]["generation"]
        )

    def message(self, kind: str, name: str = "a") -> str:
        condition = condition_of(self.toy(name), kind)
        return condition.message if condition else ""

    async def settled(self) -> None:
        """Everything that is known has been worked on."""
        calm = 0
        while calm < 3:
            await asyncio.sleep(0.01)
            calm = calm + 1 if self.reconciler.queue.idle else 0


@asynccontextmanager
async def plane(
    toys: Toys,
    api: FakeApi,
    remote: FakeApi,
    *,
    bounds: Bounds | None = None,
    register: bool = True,
    period: float = 0.1,
    given_charts: bool = False,
    **options: Any,
) -> AsyncIterator[Plane]:
    """A control plane over servers that the test has started."""
    clock = lambda: time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())  # noqa: E731
    for server in (api, remote):
        server.serve_kind(TOY)
    if register:
        await api.put(inference_cluster("east"))
        await api.put(kubeconfig_secret("east", remote.kubeconfig_text()))
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(api.client())
        caches = Caches(client, clock=clock, quiet=0.1, given_charts=given_charts)
        caches.control_plane = UID
        clusters = Clusters(caches, clock=clock, period=period)
        clusters.start()
        reconciler = Reconciler(
            client,
            caches,
            {TOY: toys},
            host=lambda: Host(control_plane_uid=UID, now=clock()),
            clock=clock,
            now=time.time,
            charts=None if given_charts else SimulatedCharts(clock),
            bounds=bounds,
            **options,
        )
        task = asyncio.create_task(reconciler.run())
        try:
            yield Plane(api, remote, caches, clusters, reconciler)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await clusters.close()
            await caches.close()
