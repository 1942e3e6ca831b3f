"""The part of an object that a reader cares about, so that a change elsewhere wakes nobody.

A path is dotted from the object's root; ``list[Name]`` picks the entry whose ``type`` or ``name`` is Name, which is how Kubernetes
keys its lists. A missing part is None and differs from an empty one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from modelplane.api.meta import Object

_SEGMENT: Final = re.compile(r"(?P<name>[^.\[\]]+)(?:\[(?P<pick>[^\]]*)\])?(?:\.|$)")


def project(obj: Object | None, paths: Sequence[str]) -> tuple[Any, ...] | None:
    """The parts in the order of the paths; None for no object."""
    return None if obj is None else tuple(part(obj, path) for path in paths)


def part(obj: Any, path: str) -> Any:
    """One part of an object; None when any step is missing. ``metadata.labels`` and the like may have dots in their own keys:
    a path ``data.tls.crt`` finds the key ``tls.crt`` when there is no ``tls``."""
    value = obj
    segments = _segments(path)
    for position, (name, pick) in enumerate(segments):
        if not isinstance(value, Mapping):
            return None
        if name not in value:
            rest = ".".join(segment for segment, _ in segments[position:])
            return value.get(rest)
        value = value[name]
        if pick is not None:
            entries = value if isinstance(value, list) else ()
            value = next(
                (e for e in entries if isinstance(e, Mapping) and pick in (e.get("type"), e.get("name"))), None
            )
    return value


@lru_cache(maxsize=4096)
def _segments(path: str) -> tuple[tuple[str, str | None], ...]:
    return tuple((match["name"], match["pick"]) for match in _SEGMENT.finditer(path))


def differs(old: Object | None, new: Object | None, paths: Sequence[str]) -> bool:
    """Whether a change is visible through the projection; appearing and vanishing always are."""
    if old is None or new is None:
        return old is not new
    return project(old, paths) != project(new, paths)


def body(obj: Object) -> Object:
    """An object without what servers keep about it: status, versions, managed fields. Two equal bodies need no write."""
    metadata = {key: value for key, value in obj["metadata"].items() if key not in _BOOKKEEPING}
    return {**{key: value for key, value in obj.items() if key not in ("status", "metadata")}, "metadata": metadata}


_BOOKKEEPING: Final = frozenset(
    (
        "managedFields",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "uid",
        "selfLink",
        "deletionGracePeriodSeconds",
    )
)
