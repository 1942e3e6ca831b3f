"""What a deployment asks of the planner: its engines with compiled selectors, and where they may go."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

import msgspec

from modelplane.api.meta import Key
from modelplane.errors import PermanentError
from modelplane.plan.cel import SelectorError
from modelplane.plan.devices import Request
from modelplane.plan.taints import Toleration


class InvalidNodeSelector(PermanentError):
    """A selector of the deployment does not compile: ``path`` is its field, ``error`` has the position in the text."""

    def __init__(self, path: str, error: SelectorError) -> None:
        super().__init__(f"{path}: {error}")
        self.path = path
        self.error = error


class Member(msgspec.Struct, frozen=True):
    """``pods`` per copy of the engine, each with these requests on its node."""

    role: str
    pods: int
    requests: tuple[Request, ...] = ()


class Engine(msgspec.Struct, frozen=True):
    name: str
    copies: int
    members: tuple[Member, ...]


class PlacementRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A deployment's request. ``selector`` are labels that a cluster has to have, ``staged`` those by which its ModelCache chooses
    the clusters that it is staged on; ``fill`` False keeps and evicts, and places nothing new."""

    key: Key
    replicas: int
    engines: tuple[Engine, ...]
    uid: str = ""
    tolerations: tuple[Toleration, ...] = ()
    selector: Mapping[str, str] = {}
    staged: Mapping[str, str] = {}
    cache: str = ""
    """Name of its ModelCache."""
    fill: bool = True
    needs_cache_storage: bool = False

    @property
    def gang(self) -> bool:
        """Whether an engine has several members."""
        return any(len(engine.members) > 1 for engine in self.engines)

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Whether deployment and ModelCache both choose a cluster with these labels."""
        return not lacking(labels, self.selector) and not lacking(labels, self.staged)

    def constraints(self) -> str:
        """Digest of what the deployment itself demands of a place; a replica placed under the same digest is not judged again."""
        shape: dict[str, object] = {
            "selectors": [sorted(self.selector.items())] if self.selector else [],
            "tolerations": sorted([t.key, t.operator, t.value, t.effect] for t in self.tolerations),
            "engines": [
                [engine.name, [[m.role, _requests(m)] for m in engine.members]]
                for engine in sorted(self.engines, key=lambda engine: engine.name)
            ],
        }
        if self.cache:
            # Its name: where the cache is staged is not the deployment's to say.
            shape["cache"] = self.cache
        return hashlib.sha256(json.dumps(shape, separators=(",", ":")).encode()).hexdigest()[:16]


def lacking(labels: Mapping[str, str], wanted: Mapping[str, str]) -> list[str]:
    """The wanted labels that are not there, as ``key=value``, in order."""
    return sorted(f"{key}={value}" for key, value in wanted.items() if labels.get(key) != value)


def _requests(member: Member) -> list[list[object]]:
    return sorted([r.name, r.count, [s.text for s in r.selectors]] for r in member.requests)
