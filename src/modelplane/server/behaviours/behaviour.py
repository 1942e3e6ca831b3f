"""The hooks of a built-in kind's behaviour, and the answers of a kind that has none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from modelplane.api.meta import Object
from modelplane.server.schema import ErrorType, FieldError
from modelplane.server.store import Store


@dataclass(frozen=True)
class Behaviour:
    """Hooks take plain objects and may change the one that they are given to prepare."""

    keeps_status: bool = False
    """Whether a create may bring a status although the kind has a status subresource."""
    creates_on_update: bool = False
    """Whether a PUT of an object that does not exist creates it."""

    status_keeps: tuple[str, ...] = ()
    """Fields of metadata that a write of the status does not touch."""
    generation_counts: tuple[str, ...] = ()
    """Fields of metadata whose change raises the generation, as a change of the spec does."""

    graceful: bool = False
    """Whether its objects may linger when they are deleted, until whoever runs them removes them."""
    serial: bool = False
    """Whether its writes wait for each other, because each takes something that no other may have."""
    unconditional: bool = True
    """Whether a PUT may leave out the resource version and so overwrite whatever is there."""
    unenforced: str = ""
    """What a client hears about a kind that is stored and not acted upon."""

    @property
    def as_written(self) -> bool:
        """Whether a new object is stored as a client wrote it, but for its metadata."""
        own = type(self)
        return own.normalize is Behaviour.normalize and own.prepare_create is Behaviour.prepare_create

    def normalize(self, obj: Object) -> None:
        """Bring what a client wrote into its stored shape; what this changes counts as the client's own."""

    def prepare_create(self, obj: Object, store: Store) -> None:
        """Fill in what the server decides, after defaults."""

    def prepare_update(self, new: Object, old: Object, store: Store) -> None:
        """Keep what an update must not change."""

    def begin_delete(self, obj: Object) -> Object:
        """The object as the first delete leaves it, beside the time of its deletion."""
        return obj

    def check(self, new: Object, old: Object | None) -> Sequence[FieldError]:
        """Rules that no schema says; ``old`` is None on a create."""
        return ()

    def warnings(self, obj: Object) -> Sequence[str]:
        """What a client should hear although the write succeeds."""
        return (self.unenforced,) if self.unenforced else ()

    def grace_seconds(self, obj: Object, asked: int | None) -> int:
        """How long the object lingers with a deletion timestamp before somebody removes it; zero removes it now."""
        return 0


IMMUTABLE = "field is immutable"


def unchanged(new: Object, old: Object | None, *path: str) -> list[FieldError]:
    """An error if a field that was set has another value now."""
    if old is None:
        return []
    before, after = _at(old, path), _at(new, path)
    if before in (None, "") or before == after:
        return []
    return [FieldError(path=".".join(path), type=ErrorType.INVALID, bad_value=after, message=IMMUTABLE)]


def _at(obj: Object, path: Sequence[str]) -> object:
    value: object = obj
    for part in path:
        if not isinstance(value, dict):
            return None
        value = value.get(part)
    return value
