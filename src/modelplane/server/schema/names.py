"""Names, labels and the rest of ``metadata``, with the sentences that Kubernetes users look up."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final

from modelplane.api.meta import Object
from modelplane.server.schema.errors import ErrorType, FieldError

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = f"({_QUALIFIED})?"
_ANNOTATIONS_LIMIT = 256 * 1024
_STANDARD_FINALIZERS: Final = ("kubernetes", "foregroundDeletion", "orphan")
_IMMUTABLE: Final = ("name", "namespace", "uid", "creationTimestamp")

NameRule = Callable[[str], list[str]]
"""What is wrong with a name, as sentences; nothing when it is right."""


def _too_long(limit: int) -> str:
    return f"must be no more than {limit} bytes"


def _rule(expression: str, limit: int, words: str, *, undotted: bool = False, part: str = "") -> NameRule:
    compiled = re.compile(expression)

    def check(text: str) -> list[str]:
        if len(text) <= limit and compiled.fullmatch(text):  # what it matches has one byte a character
            return []
        found = [part + _too_long(limit)] if len(text.encode()) > limit else []
        if compiled.fullmatch(text):
            return found
        dotted = undotted and re.fullmatch(_SUBDOMAIN, text)
        return [*found, "must not contain dots" if dotted else words]

    return check


dns_subdomain: Final = _rule(
    _SUBDOMAIN,
    253,
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    f"end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')",
)
dns_label: Final = _rule(
    _LABEL,
    63,
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    f"an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '{_LABEL}')",
    undotted=True,
)
dns_1035_label: Final = _rule(
    _LABEL_1035,
    63,
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    f"and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '{_LABEL_1035}')",
)
_qualified: Final = _rule(
    _QUALIFIED,
    63,
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    f"character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_QUALIFIED}')",
    part="name part ",
)
_KEY: Final = (
    "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    f"alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_QUALIFIED}') "
    "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
)
label_value: Final = _rule(
    _VALUE,
    63,
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    f"'{_VALUE}')",
)


def path_segment(text: str) -> list[str]:
    """Names of roles and bindings: anything that a URL can carry as one segment."""
    if text in (".", ".."):
        return [f"may not be '{text}'"]
    return [f"may not contain '{char}'" for char in "/%" if char in text]


@lru_cache(maxsize=1024)
def label_key(text: str) -> tuple[str, ...]:
    """A label or annotation key: an optional DNS prefix, a slash, a name."""
    prefix, slash, name = text.rpartition("/")
    if "/" in prefix:
        return (_KEY,)
    found = [f"prefix part {words}" for words in (dns_subdomain(prefix) if prefix else [])]
    if slash and not prefix:
        found.append("prefix part must be non-empty")
    if not name:
        found.append("name part must be non-empty")
    return (*found, *_qualified(name))


@lru_cache(maxsize=1024)
def _known_value(text: str) -> tuple[str, ...]:
    return tuple(label_value(text))


def labels(values: Mapping[str, object], path: str) -> list[FieldError]:
    """Errors of a label map."""
    found: list[tuple[str, str]] = []
    for key in values:
        if wrong := label_key(key):
            found += [(key, words) for words in wrong]
    for value in map(str, values.values()):
        if wrong := _known_value(value):
            found += [(value, words) for words in wrong]
    return [FieldError(path=path, type=ErrorType.INVALID, bad_value=bad, message=words) for bad, words in found]


def metadata(
    obj: Object, old: Object | None, rule: NameRule = dns_subdomain, *, core: bool = False
) -> list[FieldError]:
    """Errors of ``metadata``; on an update what may not change is compared with ``old``."""
    meta = obj.get("metadata") or {}
    errors: list[FieldError] = []

    def invalid(field: str, value: object, message: str) -> None:
        errors.append(FieldError(path=f"metadata.{field}", type=ErrorType.INVALID, bad_value=value, message=message))

    name = meta.get("name") or ""
    if old is None:
        if not name and not meta.get("generateName"):
            message = "name or generateName is required"
            errors.append(FieldError(path="metadata.name", type=ErrorType.REQUIRED, message=message))
        prefix = meta.get("generateName") or ""
        if prefix:
            masked = f"{prefix[:-2]}a" if len(prefix) > 1 and prefix.endswith("-") else prefix
            for words in rule(masked):
                invalid("generateName", prefix, words)
        for words in rule(name) if name else ():
            invalid("name", name, words)
    else:
        before = old.get("metadata") or {}
        for field in _IMMUTABLE:
            if meta.get(field) != before.get(field):
                invalid(field, meta.get(field), "field is immutable")
    if meta.get("labels"):
        errors += labels(meta["labels"], "metadata.labels")
    annotations = meta.get("annotations") or {}
    for key in annotations:
        for words in label_key(key.lower()):
            invalid("annotations", key, words)
    if annotations and sum(len(key.encode()) + len(str(value).encode()) for key, value in annotations.items()) > (
        _ANNOTATIONS_LIMIT
    ):
        message = f"may not be more than {_ANNOTATIONS_LIMIT} bytes"
        errors.append(FieldError(path="metadata.annotations", type=ErrorType.TOO_LONG, message=message))
    finalizers = meta.get("finalizers") or ()
    for position, finalizer in enumerate(finalizers):
        wrong = label_key(finalizer)
        for words in wrong:
            invalid("finalizers", finalizer, words)
        if not wrong and "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS and core:
            message = "name is neither a standard finalizer name nor is it fully qualified"
            invalid(f"finalizers[{position}]", finalizer, message)
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        invalid("finalizers", list(finalizers), "finalizer orphan and foregroundDeletion cannot be both set")
    references = meta.get("ownerReferences")
    return errors + _owners(references) if references else errors


def _owners(references: object) -> list[FieldError]:
    errors: list[FieldError] = []
    controllers: list[Object] = []
    assert isinstance(references, list | tuple)
    for owner in references:
        path = "metadata.ownerReferences"
        for field in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(field):
                errors.append(
                    FieldError(
                        path=f"{path}.{field}",
                        type=ErrorType.INVALID,
                        bad_value=owner.get(field) or "",
                        message="must not be empty" if field != "apiVersion" else "version must not be empty",
                    )
                )
        if str(owner.get("apiVersion") or "").count("/") > 1:
            version = owner["apiVersion"]
            errors.append(
                FieldError(path=f"{path}.apiVersion", type=ErrorType.INVALID, bad_value=version,
                           message="version must not be empty"),
            )  # fmt: skip
        if owner.get("apiVersion") in ("v1", "events.k8s.io/v1") and owner.get("kind") == "Event":
            group, _, version = owner["apiVersion"].rpartition("/")
            message = f"{group}/{version}, Kind=Event is disallowed from being an owner"
            errors.append(FieldError(path=path, type=ErrorType.INVALID, bad_value=owner, message=message))
        if owner.get("controller"):
            controllers.append(owner)
    if len(controllers) > 1:
        message = 'Only one reference can have Controller set to true. Found "true" in references for '
        message += " and ".join(f"{owner.get('kind')}/{owner.get('name')}" for owner in controllers)
        errors.append(
            FieldError(path="metadata.ownerReferences", type=ErrorType.INVALID, bad_value=references, message=message)
        )
    return errors
