"""Which controllers there are, and running a choice of them as one client of one API server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from modelplane.kube import Client
from modelplane.local.caches import Caches
from modelplane.local.controllers.accounts import ServiceAccounts
from modelplane.local.controllers.claims import Claims
from modelplane.local.controllers.deployments import Deployments
from modelplane.local.controllers.endpointslices import EndpointSlices
from modelplane.local.controllers.garbage import GarbageCollector
from modelplane.local.controllers.jobs import Jobs
from modelplane.local.controllers.leaderworkersets import LeaderWorkerSets
from modelplane.local.controllers.lifecycle import NodeLifecycle
from modelplane.local.controllers.namespaces import Namespaces
from modelplane.local.controllers.replicasets import ReplicaSets


class Controller(Protocol):
    async def run(self) -> None: ...


CONTROLLERS: Final[dict[str, Callable[[Client, Caches], Controller]]] = {
    "deployment": Deployments,
    "endpointslice": EndpointSlices,
    "garbagecollector": GarbageCollector,
    "job": Jobs,
    "leaderworkerset": LeaderWorkerSets,
    "namespace": Namespaces,
    "nodelifecycle": NodeLifecycle,
    "replicaset": ReplicaSets,
    "resourceclaim": Claims,
    "serviceaccount": lambda client, caches: ServiceAccounts(client, caches, client.kubeconfig.ca_data),
}
"""By the names that kube-controller-manager uses, without `-controller`; LeaderWorkerSet's is a project of its own."""


async def run_controllers(client: Client, caches: Caches, names: Sequence[str] = tuple(CONTROLLERS)) -> None:
    """Run until cancelled. `caches` has to run besides. Raises KeyError for an unknown name."""
    made = [CONTROLLERS[name](client, caches) for name in names]
    async with asyncio.TaskGroup() as group:
        for controller in made:
            group.create_task(controller.run())
