"""The schema of one kind, as the server uses it: prune, default, validate, in that order on every write."""

from __future__ import annotations

import copy
from collections.abc import Callable

from modelplane.api.meta import Object
from modelplane.server.schema import default as defaulting
from modelplane.server.schema.errors import FieldError
from modelplane.server.schema.node import Node
from modelplane.server.schema.prune import prune

Check = Callable[[Object, Object | None], list[FieldError]]
"""Rules of a kind that its schema cannot say: takes the object and, on updates, the stored one."""


class Schema:
    """``node`` is the tree that patches and apply walk; the root is always an object with ``metadata``."""

    def __init__(
        self,
        node: Node,
        metadata: Node,
        *,
        fill: Callable[[Object], None] | None = None,
        check: Check | None = None,
        builtin: bool = False,
    ) -> None:
        self.node = node
        self.metadata = metadata
        self.builtin = builtin
        self._fill = fill
        self._check = check

    def prune(self, obj: Object) -> tuple[Object, list[str]]:
        """Without unknown fields, and the paths of those (``spec.foo``): warnings, or errors when strict."""
        return prune(self.node, obj, self.metadata)

    def default(self, obj: Object) -> Object:
        """With defaults filled in; the input is left as it is."""
        filled = defaulting.default(self.node, defaulting.drop_nulls(self.node, obj))
        if self._fill is not None:
            filled = copy.deepcopy(filled)
            self._fill(filled)
        return filled
