"""Field errors in kube-apiserver's words: they become the message and the causes of a 422 Status."""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import StrEnum

import msgspec


class ErrorType(StrEnum):
    """The reasons of ``status.details.causes``."""

    REQUIRED = "FieldValueRequired"
    INVALID = "FieldValueInvalid"
    TYPE_INVALID = "FieldValueTypeInvalid"
    NOT_SUPPORTED = "FieldValueNotSupported"
    DUPLICATE = "FieldValueDuplicate"
    FORBIDDEN = "FieldValueForbidden"
    TOO_LONG = "FieldValueTooLong"
    TOO_MANY = "FieldValueTooMany"
    NOT_FOUND = "FieldValueNotFound"
    INTERNAL = "InternalError"


_WORDS = {
    ErrorType.REQUIRED: "Required value",
    ErrorType.INVALID: "Invalid value",
    ErrorType.TYPE_INVALID: "Invalid value",
    ErrorType.NOT_SUPPORTED: "Unsupported value",
    ErrorType.DUPLICATE: "Duplicate value",
    ErrorType.FORBIDDEN: "Forbidden",
    ErrorType.TOO_LONG: "Too long",
    ErrorType.TOO_MANY: "Too many",
    ErrorType.NOT_FOUND: "Not found",
    ErrorType.INTERNAL: "Internal error",
}

_IN_OBJECTS = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}
"""What Go writes otherwise in JSON, which is how it quotes objects and lists."""
_VALUELESS = (ErrorType.REQUIRED, ErrorType.FORBIDDEN, ErrorType.TOO_LONG, ErrorType.INTERNAL)


class Omitted(StrEnum):
    """In place of a bad value: the value is a whole object or list, which the sentence leaves out."""

    OMITTED = ""


class FieldError(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong with one field; ``str()`` is the sentence that kubectl shows."""

    path: str
    type: ErrorType
    message: str = ""
    bad_value: object = None

    @property
    def body(self) -> str:
        """The sentence without the path: the ``message`` of a cause."""
        text = _WORDS[self.type]
        if self.type not in _VALUELESS and self.bad_value is not Omitted.OMITTED:
            text += f": {shown(self.bad_value)}"
        return f"{text}: {self.message}" if self.message else text

    def __str__(self) -> str:
        return f"{self.path or '<nil>'}: {self.body}"


def shown(value: object) -> str:
    """A value as a field error quotes it: strings in quotes, objects as JSON."""
    if value is None:
        return "null"
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    return text.translate(_IN_OBJECTS) if isinstance(value, dict | list) else text


def supported(path: str, value: object, choices: Sequence[object]) -> FieldError:
    """ "Unsupported value", with the choices in the order given."""
    named = ", ".join(shown(choice if isinstance(choice, str) else shown(choice)) for choice in choices)
    return FieldError(path=path, type=ErrorType.NOT_SUPPORTED, bad_value=value, message=f"supported values: {named}")


def summary(kind: str, group: str, name: str, errors: Sequence[FieldError]) -> str:
    """The message of a 422: one error inline, several as a bracketed list."""
    qualified = f"{kind}.{group}" if group else kind
    texts = list(dict.fromkeys(str(error) for error in errors))
    told = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    return f'{qualified} "{name}" is invalid: {told}'
