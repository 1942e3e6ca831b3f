"""Which kinds are served right now: the built-in ones, and those of stored CustomResourceDefinitions.

Everything that depends on the set (routing, discovery, OpenAPI) asks here; ``generation`` changes when the set does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from modelplane.server.call import storage
from modelplane.server.resource import ResourceType


class Registry:
    """Resource types by group, version and plural."""

    def __init__(self, builtin: Iterable[ResourceType]) -> None:
        self._builtin = {_place(type_): type_ for type_ in builtin}
        self._types = dict(self._builtin)
        self._custom: dict[str, tuple[ResourceType, ...]] = {}
        self.generation = 1

    def find(self, group: str, version: str, plural: str) -> ResourceType | None:
        return self._types.get((group, version, plural))

    def find_kind(self, group: str, version: str, kind: str) -> ResourceType | None:
        return next(
            (t for t in self._types.values() if (t.gvk.group, t.gvk.version, t.gvk.kind) == (group, version, kind)),
            None,
        )

    def storage_version(self, type_: ResourceType) -> str:
        """The apiVersion in which objects of a kind are stored."""
        if type_.storage_version:
            return type_.gvk.api_version
        for other in self._types.values():
            if storage(other) == storage(type_) and other.storage_version:
                return other.gvk.api_version
        return type_.gvk.api_version

    def has_group(self, group: str, version: str = "") -> bool:
        return any(g == group and (not version or v == version) for g, v, _ in self._types)

    def is_builtin_group(self, group: str) -> bool:
        return any(g == group for g, _, _ in self._builtin)

    def types(self) -> list[ResourceType]:
        return list(self._types.values())

    def custom(self, name: str) -> tuple[ResourceType, ...]:
        """The types that the CustomResourceDefinition of this name defines."""
        return self._custom.get(name, ())

    def define(self, name: str, types: Sequence[ResourceType]) -> None:
        """Take the types of a CustomResourceDefinition, instead of the ones it defined before; none removes it."""
        if types:
            self._custom[name] = tuple(types)
        else:
            self._custom.pop(name, None)
        self._types = dict(self._builtin)
        for defined in self._custom.values():
            for type_ in defined:
                self._types.setdefault(_place(type_), type_)
        self.generation += 1


def _place(type_: ResourceType) -> tuple[str, str, str]:
    return type_.gvk.group, type_.gvk.version, type_.plural
