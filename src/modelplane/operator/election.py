"""One operator works, the others stand by: leader election by a Lease, with the protocol and the times of client-go.

Clocks are never compared between machines: whoever stands by measures on its own clock how long the Lease has not changed. A
watch tells it of every change, so it follows a leader that let go at once, and one that died when the Lease has run out. A leader
that cannot renew gives up well before that; between the two moments nobody works, which is what the election trades away.
A leader that was paused meanwhile wakes up in the middle of its work: `guard` stops every write of one whose Lease is too old.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import time
import uuid
from typing import Final, NoReturn

import msgspec

from modelplane.api.meta import GVK, Key, Object
from modelplane.control.told import Told
from modelplane.errors import AlreadyExists, ApiError, Conflict, Forbidden, LeaseLost, NotFound, Unauthorized
from modelplane.kube import Client, Informer

log = logging.getLogger(__name__)

LEASE: Final = GVK("coordination.k8s.io", "v1", "Lease")
NO_ANSWER: Final = "no answer in time"
KEY: Final = Key("modelplane-system", "modelplane-operator")
RELEASE_WITHIN: Final = 2.0
"""Seconds that letting go may take; the Lease runs out by itself otherwise."""


class Times(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds. ``duration`` is what others wait after the last renewal, ``renew`` after how long the leader gives up."""

    duration: float = 15.0
    renew: float = 10.0
    retry: float = 2.0


def identity() -> str:
    """A name for this process that no other has: the pod's name, and something random for a process started again in it."""
    return f"{os.environ.get('HOSTNAME') or socket.gethostname()}_{uuid.uuid4()}"


class Election:
    """One candidate. `acquire`, then `hold` beside the work, then `release` when the work has ended."""

    def __init__(self, client: Client, *, name: str = "", key: Key = KEY, times: Times | None = None) -> None:
        self.name = name or identity()
        self.leading = False
        self._client = client
        self._key = key
        self._times = times or Times()
        self._lease: Object | None = None
        """The Lease as we last wrote it, while it is ours."""
        self._seen: object = None
        self._seen_at = 0.0
        self._renewed = 0.0
        self._stirred = asyncio.Event()
        self._told = Told()

    def _warn(self, what: str, error: Exception) -> str:
        """The words of a failed try, logged unless they were just before. No answer has none of its own."""
        why = str(error) or NO_ANSWER
        if self._told.news(what, why):
            log.warning("%s: %s", what, why)
        return why

    async def acquire(self) -> None:
        """Return when the Lease is ours, however long that takes. Raises Unauthorized and Forbidden at once."""
        informer = Informer(self._client, LEASE, self._key.namespace, fields={"metadata.name": self._key.name})
        informer.subscribe(lambda old, new: self._stirred.set())
        watching = asyncio.create_task(informer.run(), name="watching the lease")
        told = ""
        try:
            while True:
                self._stirred.clear()
                pause = self._times.retry
                try:
                    async with asyncio.timeout(self._times.renew):
                        holder, pause = await self._try()
                except (Unauthorized, Forbidden):
                    raise
                except (ApiError, TimeoutError) as error:
                    self._warn(f"waiting for the Lease {self._key}", error)
                else:
                    self._told.forget(f"waiting for the Lease {self._key}")
                    if self.leading:
                        log.info("leading as %s", self.name)
                        return
                    if holder != told:
                        told = holder
                        log.info("standing by: %s leads", holder)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(min(pause, self._times.retry)):
                        await self._stirred.wait()
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def hold(self) -> NoReturn:
        """Renew until cancelled. Raises LeaseLost: another has it, or it could not be renewed in time."""
        failing = f"the Lease {self._key} is not renewed"
        why = ""
        while True:
            await asyncio.sleep(self._times.retry)
            left = self._renewed + self._times.renew - time.monotonic()
            try:
                async with asyncio.timeout(max(left, 0.0)):
                    holder = await self._renew()
            except ApiError as error:
                why = self._warn(failing, error)
            except TimeoutError as error:
                # The time was up in the middle of a try: what was answered before says more.
                why = why or self._warn(failing, error)
            else:
                why = ""
                self._told.forget(failing)
                if not self.leading:
                    raise LeaseLost(
                        f"the Lease {self._key} is held by {holder}; this operator ends and can be started again"
                    )
            if time.monotonic() >= self._renewed + self._times.renew:
                self.leading = False
                raise LeaseLost(
                    f"the Lease {self._key} could not be renewed for {self._times.renew:g} s ({why}); this operator ends, so "
                    "that there are not two, and can be started again"
                )

    def guard(self) -> None:
        """Raise LeaseLost unless this is the leader and nobody else can be yet. To be asked before each write; asks nobody."""
        age = time.monotonic() - self._renewed
        if not self.leading or age >= self._times.renew:
            raise LeaseLost(
                f"nothing is written any more: the Lease {self._key} was last renewed {age:.0f} s ago, another may have it"
                if self.leading
                else f"nothing is written: the Lease {self._key} is not ours"
            )

    async def release(self) -> None:
        """Let go, if it is ours, so that another need not wait for the Lease to run out. To be called when the work has ended."""
        self.leading = False
        try:
            async with asyncio.timeout(RELEASE_WITHIN):
                lease = await self._client.get(LEASE, self._key.name, self._key.namespace)
                if _spec(lease).get("holderIdentity") == self.name:
                    now = _now()
                    lease["spec"] = {
                        **_spec(lease),
                        "holderIdentity": "",
                        "leaseDurationSeconds": 1,
                        "acquireTime": now,
                        "renewTime": now,
                    }
                    await self._client.replace(lease)
                    log.info("the Lease %s is released", self._key)
        except (ApiError, TimeoutError) as error:
            if self._renewed:
                log.info("the Lease %s was not released and runs out by itself: %s", self._key, str(error) or NO_ANSWER)
            else:
                log.debug(
                    "the Lease %s, which was never ours, was not looked at: %s", self._key, str(error) or NO_ANSWER
                )

    async def _renew(self) -> str:
        """Write the Lease that we have, or look at it when somebody else wrote it. Returns who has it."""
        if self._lease is not None:
            began = time.monotonic()
            self._lease["spec"]["renewTime"] = _now()
            try:
                self._lease = await self._client.replace(self._lease)
            except (Conflict, NotFound):
                self._lease = None
            else:
                self._renewed = began
                return self.name
        return (await self._try())[0]

    async def _try(self) -> tuple[str, float]:
        """Take or renew the Lease where that is allowed. Returns who has it, and the seconds until it runs out."""
        began = time.monotonic()
        try:
            lease = await self._client.get(LEASE, self._key.name, self._key.namespace)
        except NotFound:
            metadata = {"name": self._key.name, "namespace": self._key.namespace}
            lease = {"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": metadata}
        spec = _spec(lease)
        holder = str(spec.get("holderIdentity") or "")
        if spec != self._seen:
            self._seen, self._seen_at = spec, time.monotonic()
        left = self._seen_at + float(spec.get("leaseDurationSeconds") or self._times.duration) - time.monotonic()
        if holder not in ("", self.name) and left > 0:
            self.leading = False
            return holder, left
        now = _now()
        ours = holder == self.name
        lease["spec"] = {
            "holderIdentity": self.name,
            "leaseDurationSeconds": max(1, round(self._times.duration)),
            "acquireTime": spec.get("acquireTime") if ours else now,
            "renewTime": now,
            "leaseTransitions": int(spec.get("leaseTransitions") or 0) + (not ours and bool(spec)),
        }
        try:
            written = self._client.replace if "resourceVersion" in lease["metadata"] else self._client.create
            self._lease = await written(lease)
        except (Conflict, AlreadyExists):
            # Another was faster; who it is shows at once.
            self._stirred.set()
            return holder or "another", 0.0
        self.leading, self._renewed = True, began
        return self.name, self._times.duration


async def leader(client: Client, key: Key = KEY, times: Times | None = None) -> str:
    """Who renews the Lease while we look, empty for nobody. No clock of another machine is believed: it is looked at twice."""
    first = _spec(await client.get(LEASE, key.name, key.namespace))
    if not first.get("holderIdentity"):
        return ""
    times = times or Times()
    await asyncio.sleep(times.retry * 2)
    second = _spec(await client.get(LEASE, key.name, key.namespace))
    return str(second.get("holderIdentity") or "") if second.get("renewTime") != first.get("renewTime") else ""


def _spec(lease: Object) -> Object:
    return dict(lease.get("spec") or {})


def _now() -> str:
    """Now as a MicroTime."""
    seconds, nanoseconds = divmod(time.time_ns(), 1_000_000_000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{nanoseconds // 1000:06d}Z"
