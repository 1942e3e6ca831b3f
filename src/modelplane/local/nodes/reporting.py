"""Writes one pod's status: the newest state of its containers, as often as it changes and no oftener than it can be written."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from modelplane.api.meta import Object
from modelplane.errors import ApiError, Conflict, NotFound
from modelplane.kube import Client, PatchType
from modelplane.local import clock
from modelplane.local.kinds import POD
from modelplane.local.nodes import podstatus
from modelplane.local.nodes.podstatus import ContainerState, Stage
from modelplane.local.nodes.records import PodRecord

log = logging.getLogger(__name__)

AGAIN: Final = 0.5


class Reporter:
    """`show` states, `run` writes them. `pod` is kept current by its owner."""

    def __init__(self, client: Client, pod: Object, record: PodRecord, host_ip: str) -> None:
        self.pod = pod
        self._client = client
        self._record = record
        self._host_ip = host_ip
        self._states: dict[str, ContainerState] = {}
        self._dirty = asyncio.Event()
        self._written: Object | None = None

    def show(self, container: str, state: ContainerState) -> bool:
        """Take a container's new state; whether it is news."""
        if self._states.get(container) == state:
            return False
        self._states[container] = state
        self._dirty.set()
        return True

    async def run(self) -> None:
        """Write whenever something changed, until cancelled."""
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            try:
                await self.write()
            except (NotFound, Conflict):
                log.debug("pod %s/%s is another one by now", self._record.namespace, self._record.name)
            except ApiError as error:
                log.warning("status of pod %s/%s: %s", self._record.namespace, self._record.name, error)
                self._dirty.set()
                await asyncio.sleep(AGAIN)

    async def write(self) -> None:
        """Write the status unless it is written already. Raises ApiError."""
        record = self._record
        creating = ContainerState(Stage.WAITING, "ContainerCreating")
        states = {c["name"]: self._states.get(c["name"], creating) for c in self.pod["spec"]["containers"]}
        started = record.started or clock.stamp()
        status = podstatus.compose(self.pod, states, ip=record.ip, host_ip=self._host_ip, started=started)
        if status == self._written:
            return
        body = {"metadata": {"uid": record.uid}, "status": status}
        fresh = await self._client.patch(POD, record.name, record.namespace, body, PatchType.STRATEGIC, "status")
        self._written = status
        self.pod = {**self.pod, "status": fresh.get("status") or {}}
