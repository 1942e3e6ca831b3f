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
    """A deployment's request. ``selectors`` are label sets that a cluster has to have, every one of them; ``fill`` False keeps and
    evicts, and places nothing new."""

    key: Key
    replicas: int
    engines: tuple[Engine, ...]
    uid: str = ""
    tolerations: tuple[Toleration, ...] = ()
    selectors: tuple[Mapping[str, str], ...] = ()
    fill: bool = True
    needs_cache_storage: bool = False

    def selects(self, labels: Mapping[str, str]) -> bool:
        return all(labels.get(key) == value for one in self.selectors for key, value in one.items())

    def constraints(self) -> str:
        """Digest of what the deployment itself demands of a place; a replica placed under the same digest is not judged again."""
        shape = {
            "selectors": [sorted(one.items()) for one in self.selectors],
            "tolerations": sorted([t.key, t.operator, t.value, t.effect] for t in self.tolerations),
            "engines": [
                [engine.name, [[m.role, _requests(m)] for m in engine.members]]
                for engine in sorted(self.engines, key=lambda engine: engine.name)
            ],
        }
        return hashlib.sha256(json.dumps(shape, separators=(",", ":")).encode()).hexdigest()[:16]


def _requests(member: Member) -> list[list[object]]:
    return sorted([r.name, r.count, [s.text for s in r.selectors]] for r in member.requests)
