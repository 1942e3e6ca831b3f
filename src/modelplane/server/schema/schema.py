"""The schema of one kind, as the server uses it: prune, default, validate, in that order on every write."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Final

from modelplane.api.meta import Object
from modelplane.server.schema import default as defaulting
from modelplane.server.schema.decode import type_mismatch
from modelplane.server.schema.errors import ErrorType, FieldError
from modelplane.server.schema.names import NameRule, dns_subdomain, metadata
from modelplane.server.schema.node import TEXT, Node, with_properties
from modelplane.server.schema.prune import prune
from modelplane.server.schema.rules import Rules
from modelplane.server.schema.sound import sound
from modelplane.server.schema.validate import validate

Check = Callable[[Object, Object | None], list[FieldError]]
"""Rules of a kind that its schema cannot say: takes the object and, on updates, the stored one."""

_BLOCKING = (
    ErrorType.REQUIRED,
    ErrorType.TYPE_INVALID,
    ErrorType.TOO_LONG,
    ErrorType.TOO_MANY,
    ErrorType.NOT_SUPPORTED,
)
_RULES_SKIPPED = (
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)

_STRUCTS: Final = frozenset({"spec.template", "spec.jobTemplate"})
"""Fields that are always there in Go, empty when nobody gave them: what they lack is told, and not that they are missing."""


class Schema:
    """``node`` is the tree as it was written; ``root`` is the one that patches and apply walk."""

    def __init__(
        self,
        node: Node,
        metadata: Node,
        *,
        fill: Callable[[Object], None] | None = None,
        check: Check | None = None,
        rules: Rules | None = None,
        name: NameRule = dns_subdomain,
        builtin: bool = False,
        status_subresource: bool = False,
        scale: Callable[[Object], list[FieldError]] | None = None,
    ) -> None:
        self.node = node
        self.metadata = metadata
        self.builtin = builtin
        self.status_subresource = status_subresource
        self.root = node if builtin else with_properties(node, {"metadata": metadata, "apiVersion": TEXT, "kind": TEXT})
        """The node with the full schema of ``metadata``, which a custom kind's own schema does not spell out."""
        self._fill = fill
        self._check = check
        self._rules = rules
        self._name = name
        self._scale = scale

    def prune(self, obj: Object) -> tuple[Object, list[str]]:
        """Without unknown fields, and the paths of those (``spec.foo``): warnings, or errors when strict."""
        kept, unknown = prune(self.node, obj, self.metadata)
        return kept, unknown if self.builtin else sorted(unknown)  # each as kube-apiserver lists them

    def default(self, obj: Object) -> Object:
        """With defaults filled in; the input is left as it is."""
        # Of a built-in kind nothing is null any longer (nulls.py); of a custom one its schema decides here.
        filled = defaulting.default(self.node, obj if self.builtin else defaulting.drop_nulls(self.node, obj))
        if self._fill is not None:
            filled = copy.deepcopy(filled)
            self._fill(filled)
        return filled

    def sound(self, obj: Object) -> bool:
        """Whether `decoding_error` and `prune` have nothing to say about an object; if not, it takes them to know."""
        return sound(self.root, obj)

    def decoding_error(self, obj: Object) -> str:
        """Why Go could not decode the object (a 400), or an empty string.

        Built-in kinds are decoded whole; of a custom kind only ``metadata`` is, the rest is for ``validate``.
        """
        if self.builtin:
            return type_mismatch(self.node, obj)
        return type_mismatch(self.metadata, obj.get("metadata"), "metadata", "ObjectMeta")

    @property
    def as_written(self) -> bool:
        """Whether `default` leaves every object as it is, and nothing but the tree judges its shape."""
        return self.builtin and self._fill is None and self._scale is None and not self.node.has_default_below

    def validate(self, obj: Object, old: Object | None = None, *, known_sound: bool = False) -> list[FieldError]:
        """Everything wrong with an object; on an update, ``old`` is the stored one. Expects it pruned and defaulted.
        ``known_sound`` says that it was found sound, and got nothing but metadata of the server's since."""
        errors = metadata(obj, old, self._name, core=self.builtin and self.node.name != "CustomResourceDefinition")
        structural = [] if known_sound else self._structural(obj, old)
        errors += structural
        if self._rules is not None and self._rules.present:
            if any(error.type in _BLOCKING for error in structural):
                errors.append(FieldError(path="", type=ErrorType.INVALID, message=_RULES_SKIPPED))
            else:
                errors += self._rules.check(obj, old)
        if self._check is not None:
            known = {(error.path, error.type) for error in errors}
            errors += [error for error in self._check(obj, old) if (error.path, error.type) not in known]
        return errors

    def _structural(self, obj: Object, old: Object | None) -> list[FieldError]:
        beside = self._scale(obj) if self._scale is not None else ()
        if not beside and self.sound(obj):
            # What a custom kind asks of its metadata is not in the root, which has Kubernetes' own schema there.
            own = None if self.builtin else self.node.properties.get("metadata")
            if own is None or "metadata" not in obj:
                return []
            return validate(own, obj["metadata"], (old or {}).get("metadata"), "metadata")
        found = validate(self.node, obj, old, beside=beside)
        return [error for error in found if _judged(error)] if self.builtin else found


def _judged(error: FieldError) -> bool:
    """Whether a built-in kind's schema decides this. Go fills in what a status leaves out, and repeated keys pass."""
    if error.type is ErrorType.REQUIRED:
        return error.path.startswith("spec.") and error.path not in _STRUCTS
    return error.type is not ErrorType.DUPLICATE
