"""What one pass lets a composer see: answers to its own reads, its own children, the planner, the host."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from modelplane.api.meta import Object
from modelplane.compose.contract import Answer, Composer, ConditionTrue, Host, Observed, Read, Ready
from modelplane.control.apply import release_secret
from modelplane.control.caches import Caches
from modelplane.control.charts import DEPLOYED, RELEASE
from modelplane.control.index import Parent, ReadIndex
from modelplane.control.inventory import Entry
from modelplane.control.ownership import Ref
from modelplane.control.readiness import is_ready

ROUNDS: Final = 3


def load(parent: Parent, xr: Object, composer: Composer, caches: Caches, index: ReadIndex) -> dict[Read, Answer]:
    """Answer a composer's reads, again while the answers lead to new ones. The reads become the parent's watch set before they
    are answered, so that no change between answer and watch is missed."""
    known: dict[Read, Answer] = {}
    for _ in range(ROUNDS):
        wanted = composer.reads(xr, known)
        if wanted <= known.keys():
            break
        index.put(parent, {*wanted, *known})
        known.update({read: caches.answer(read) for read in wanted if read not in known})
    return known


class PassWorld:
    """One pass's view; a `compose.contract.World`."""

    def __init__(
        self,
        answers: Mapping[Read, Answer],
        observed: Mapping[str, Observed],
        place: Callable[[Any], Any],
        host: Host,
    ) -> None:
        self._answers = answers
        self._observed = observed
        self._place = place
        self._host = host

    def answer(self, read: Read) -> Answer:
        if read not in self._answers:
            raise KeyError(f"{read} was not among the composer's reads")
        return self._answers[read]

    @property
    def observed(self) -> Mapping[str, Observed]:
        return self._observed

    def place(self, request: Any) -> Any:
        return self._place(request)

    @property
    def host(self) -> Host:
        return self._host


def observe(entries: Mapping[Ref, Entry], rules: Mapping[str, Ready], caches: Caches) -> dict[str, Observed]:
    """A parent's children by key as last seen. Of two objects with one key the one that is not being deleted counts."""
    result: dict[str, Observed] = {}
    for entry in entries.values():
        if entry.ref.gvk == RELEASE:
            obj = release_secret(caches, entry.ref)
            ready = obj is not None and obj["metadata"]["labels"].get("status") == DEPLOYED
        else:
            obj = caches.child(entry.ref)
            ready = is_ready(rules.get(entry.key, _UNKNOWN), obj)
        if obj is None:
            continue
        known = result.get(entry.key)
        if known is not None and obj["metadata"].get("deletionTimestamp"):
            continue
        result[entry.key] = Observed(manifest=obj, ready=ready, stale_since=_stale(entry, caches))
    return result


_UNKNOWN: Final = ConditionTrue()
"""Before a composer has said by which rule its child is ready, only a Ready condition counts."""


def _stale(entry: Entry, caches: Caches) -> str | None:
    return None if entry.ref.target is None else caches.stale_since(entry.ref)
