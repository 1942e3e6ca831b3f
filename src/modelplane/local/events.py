"""Events (v1) about other objects, written behind the caller's back in order, with repeats counted instead of repeated."""

from __future__ import annotations

import asyncio
import logging
import os
from collections import OrderedDict

from modelplane.api.meta import Object
from modelplane.errors import ApiError, NotFound
from modelplane.kube import Client
from modelplane.local import clock
from modelplane.local.kinds import EVENT

log = logging.getLogger(__name__)

REMEMBERED = 1024
WAITING = 4096


class Events:
    """The event recorder of one component. Call `event` at any time; `run` writes them."""

    def __init__(self, client: Client, component: str, host: str = "") -> None:
        self._client = client
        self._component = component
        self._host = host
        self._queue: asyncio.Queue[Object] = asyncio.Queue(WAITING)
        self._written: OrderedDict[tuple[str, str, str], tuple[str, str, int]] = OrderedDict()

    def event(self, about: Object, type_: str, reason: str, message: str, *, host: str | None = None) -> None:
        """`type_` is Normal or Warning. Dropped when thousands wait already: an event must not hold anything up."""
        metadata = about["metadata"]
        moment = clock.stamp()
        node = self._host if host is None else host
        event: Object = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": f"{metadata['name'][:240]}.{os.urandom(8).hex()}",
                "namespace": metadata.get("namespace") or "default",
            },
            "involvedObject": {
                "apiVersion": about["apiVersion"],
                "kind": about["kind"],
                "name": metadata["name"],
                **({"namespace": metadata["namespace"]} if metadata.get("namespace") else {}),
                "uid": metadata.get("uid", ""),
                "resourceVersion": metadata.get("resourceVersion", ""),
            },
            "type": type_,
            "reason": reason,
            "message": message,
            "source": {"component": self._component, **({"host": node} if node else {})},
            "reportingComponent": self._component,
            "reportingInstance": node,
            "firstTimestamp": moment,
            "lastTimestamp": moment,
            "count": 1,
        }
        try:
            self._queue.put_nowait(event)
        except asyncio.QueueFull:
            log.warning("an event about %s is dropped: %s", metadata["name"], message)

    async def run(self) -> None:
        """Write events until cancelled."""
        while True:
            event = await self._queue.get()
            try:
                await self._write(event)
            except ApiError as error:
                log.debug("event about %s: %s", event["involvedObject"]["name"], error)

    async def _write(self, event: Object) -> None:
        about = event["involvedObject"]
        key = (about["uid"] or about["name"], event["reason"], event["message"])
        known = self._written.pop(key, None)
        if known is not None:
            namespace, name, count = known
            patch = {"count": count + 1, "lastTimestamp": event["lastTimestamp"]}
            try:
                await self._client.patch(EVENT, name, namespace, patch)
            except NotFound:
                known = None
            else:
                self._written[key] = (namespace, name, count + 1)
        if known is None:
            await self._client.create(event)
            self._written[key] = (event["metadata"]["namespace"], event["metadata"]["name"], 1)
        while len(self._written) > REMEMBERED:
            self._written.popitem(last=False)
