"""The protocol of one delta ADS stream, without the stream: requests in, responses out.

Follows envoyproxy.io's "xDS protocol", incremental variant: a type is asked for by names or wholly, every response is
answered by its nonce, and a proxy that reconnects says what it has. Clusters go before endpoints, listeners before
routes, and clusters leave last, so that no route points at nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from modelplane.gateway import wire
from modelplane.gateway.xds.names import CLUSTER, ENDPOINTS, LISTENER, ROUTES
from modelplane.gateway.xds.snapshot import Snapshot

REQUEST: Final = "envoy.service.discovery.v3.DeltaDiscoveryRequest"
RESPONSE: Final = "envoy.service.discovery.v3.DeltaDiscoveryResponse"

_ORDER: Final = (CLUSTER, ENDPOINTS, LISTENER, ROUTES)
_ABSENT: Final = ""
"""The version of a resource that was asked for by name and does not exist, once that has been said."""


class Verdict(msgspec.Struct, frozen=True):
    """What a proxy said to one response: the resources meant, and its complaint, empty when it took them. A complaint
    about several resources that names none of them is about nobody yet: they are sent again one by one."""

    type: str
    names: tuple[str, ...]
    complaint: str


class _Type(msgspec.Struct):
    wildcard: bool = False
    asked: bool = False
    names: set[str] = msgspec.field(default_factory=set)
    alone: set[str] = msgspec.field(default_factory=set)
    """Resources that were refused together with others: sent one by one, so that the good ones get through."""
    sent: dict[str, str] = msgspec.field(default_factory=dict)


class Subscription:
    """What one proxy wants and has, on one stream."""

    def __init__(self) -> None:
        self.node = ""
        self._types: dict[str, _Type] = {type_: _Type() for type_ in _ORDER}
        self._waiting: dict[str, tuple[str, tuple[str, ...]]] = {}
        self._nonce = 0

    def settled(self, snapshot: Snapshot, *, refused: bool) -> bool:
        """Whether the proxy has answered for everything in the snapshot. What hangs on a refused resource is never asked for."""
        if self._waiting or not all(self._types[type_].asked for type_ in (CLUSTER, LISTENER)):
            return False
        return refused or all(
            self._types[type_].sent.get(name) == entry.version
            for type_, entries in snapshot.entries.items()
            for name, entry in entries.items()
        )

    def take(self, data: bytes) -> Verdict | None:
        """Take a request; gives the proxy's verdict on an earlier response if the request carries one."""
        request = wire.decode(REQUEST, data)
        self.node = self.node or (request.get("node") or {}).get("id", "")
        type_ = request.get("type_url", "").removeprefix(wire.TYPE_URL)
        state = self._types.get(type_)
        if state is None:
            return None
        subscribe = request.get("resource_names_subscribe") or ()
        if not state.asked and not subscribe and type_ in (CLUSTER, LISTENER):
            state.wildcard = True
        state.asked = True
        state.sent.update(request.get("initial_resource_versions") or {})
        for name in subscribe:
            if name == "*":
                state.wildcard = True
            else:
                state.names.add(name)
                if not request.get("initial_resource_versions"):
                    state.sent.pop(name, None)  # asked for again: wants to see it again
        for name in request.get("resource_names_unsubscribe") or ():
            if name == "*":
                state.wildcard = False
            state.names.discard(name)
            state.sent.pop(name, None)
        waiting = self._waiting.pop(request.get("response_nonce", ""), None)
        if waiting is None:
            return None
        complaint = (request.get("error_detail") or {}).get("message", "")
        names = waiting[1]
        if complaint and len(names) > 1:
            names = tuple(name for name in names if name in complaint)
            if not names:
                state.alone.update(waiting[1])
                for name in waiting[1]:
                    state.sent.pop(name, None)
        elif not complaint:
            state.alone.difference_update(names)
        return Verdict(waiting[0], names, complaint)

    def responses(self, snapshot: Snapshot) -> Iterator[bytes]:
        """The messages that bring the proxy from what it has to the snapshot, in a safe order."""
        gone: list[str] = []
        for type_ in _ORDER:
            state = self._types[type_]
            if not state.asked:
                continue
            have = snapshot.entries.get(type_, {})
            wanted = have.keys() if state.wildcard else state.names
            changed = [name for name in wanted if name in have and state.sent.get(name) != have[name].version]
            missing = [name for name in state.sent if name not in have and state.sent[name] != _ABSENT]
            missing += [name for name in state.names if name not in have and name not in state.sent]
            if type_ == CLUSTER:
                gone, missing = missing, []
                # A cluster that is replaced waits for its endpoints although they did not change.
                endpoints = self._types[ENDPOINTS]
                for name in changed:
                    if name in endpoints.names:
                        endpoints.sent.pop(name, None)
            for name in [name for name in changed if name in state.alone]:
                changed.remove(name)
                yield from self._response(snapshot, type_, [name], [])
            yield from self._response(snapshot, type_, changed, missing)
        yield from self._response(snapshot, CLUSTER, [], gone)

    def _response(self, snapshot: Snapshot, type_: str, changed: list[str], missing: list[str]) -> Iterator[bytes]:
        if not changed and not missing:
            return
        state, have = self._types[type_], snapshot.entries.get(type_, {})
        for name in changed:
            state.sent[name] = have[name].version
        for name in missing:
            if name in state.names:
                state.sent[name] = _ABSENT
            else:
                state.sent.pop(name, None)
        self._nonce += 1
        nonce = str(self._nonce)
        self._waiting[nonce] = (type_, tuple(changed))
        yield wire.encode(
            RESPONSE,
            {
                "type_url": wire.TYPE_URL + type_,
                "resources": [have[name].data for name in changed],
                "removed_resources": missing,
                "nonce": nonce,
            },
        )
