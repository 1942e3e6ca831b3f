"""The last judgement on an object before it is written: what a schema cannot say.

A kind may have a review function; it sees the new object and the stored one, and answers with field errors. Those of our own
kinds are in ``reviews``, the same that the operator's webhook calls on other API servers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from modelplane.api.meta import GVK, Object
from modelplane.server.schema import FieldError

Review = Callable[[Object, Object | None], Sequence[FieldError]]
"""Takes the object as it would be stored and, on an update, the stored one; no error lets it pass."""


@dataclass(frozen=True, slots=True)
class Admission:
    """Reviews by kind."""

    reviews: Mapping[GVK, Review] = field(default_factory=dict)

    def judge(self, gvk: GVK, new: Object, old: Object | None) -> Sequence[FieldError]:
        """Metadata-only changes pass unseen, so that a stored object can always lose its finalizers."""
        review = self.reviews.get(gvk)
        if review is None or (old is not None and _content(old) == _content(new)):
            return ()
        return review(new, old)


def _content(obj: Object) -> Object:
    return {key: value for key, value in obj.items() if key not in ("metadata", "status")}
