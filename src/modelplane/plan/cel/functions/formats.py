"""Kubernetes' named formats: ``format.dns1123Label().validate(text)`` gives the complaints, or none."""

from __future__ import annotations

import base64
import binascii
import datetime
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from modelplane.plan.cel.functions.network import is_url
from modelplane.plan.cel.functions.times import to_timestamp
from modelplane.plan.cel.registry import declare
from modelplane.plan.cel.syntax import Fault
from modelplane.plan.cel.values import NONE, Optional, register_kind


@dataclass(frozen=True, slots=True)
class NamedFormat:
    name: str


register_kind(NamedFormat, "kubernetes.NamedFormat")


def _pattern(expression: str, longest: int, complaint: str) -> Callable[[str], list[str]]:
    compiled = re.compile(expression, re.ASCII)

    def validate(text: str) -> list[str]:
        if len(text) > longest:
            return [f"must be no more than {longest} characters"]
        return [] if compiled.fullmatch(text) else [complaint]

    return validate


def _prefix(whole: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    """For a text to which more is appended. Kubernetes puts one letter for its last two when it ends in a dash."""
    return lambda text: whole(f"{_bytes_before_last_two(text)}a" if len(text) > 1 and text.endswith("-") else text)


def _bytes_before_last_two(text: str) -> str:
    return text.encode()[:-2].decode(errors="replace")


def _predicate(test: Callable[[str], bool], complaint: str) -> Callable[[str], list[str]]:
    return lambda text: [] if test(text) else [complaint]


def _is_base64(text: str) -> bool:
    try:
        return base64.b64decode(text, validate=True) != b""
    except binascii.Error:
        return False


def _is_date(text: str) -> bool:
    if re.fullmatch(r"\d{4}-\d\d-\d\d", text, re.ASCII) is None:
        return False
    try:
        datetime.date.fromisoformat(text if text[:4] != "0000" else f"2000{text[4:]}")  # Go has that year
    except ValueError:
        return False
    return True


def _is_moment(text: str) -> bool:
    try:
        to_timestamp(text)
    except Fault:
        return False
    return True


_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_QUALIFIED: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LOWER: Final = (
    "must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character"
)
_LOWER_START: Final = "must consist of lower case alphanumeric characters or '-', start with an alphabetic character"

_DNS_1123_LABEL: Final = _pattern(_LABEL, 63, f"a lowercase RFC 1123 label {_LOWER}")
_DNS_1123_SUBDOMAIN: Final = _pattern(_SUBDOMAIN, 253, f"a lowercase RFC 1123 subdomain {_LOWER}, or '.'")
_DNS_1035_LABEL: Final = _pattern("[a-z]([-a-z0-9]*[a-z0-9])?", 63, f"a DNS-1035 label {_LOWER_START}")

_FORMATS: Final = {
    "dns1123Label": _DNS_1123_LABEL,
    "dns1123Subdomain": _DNS_1123_SUBDOMAIN,
    "dns1035Label": _DNS_1035_LABEL,
    "dns1123LabelPrefix": _prefix(_DNS_1123_LABEL),
    "dns1123SubdomainPrefix": _prefix(_DNS_1123_SUBDOMAIN),
    "dns1035LabelPrefix": _prefix(_DNS_1035_LABEL),
    "qualifiedName": _pattern(
        rf"({_SUBDOMAIN}/)?{_QUALIFIED}",
        317,
        "must be a qualified name: alphanumeric characters, '-', '_' or '.', with an optional prefix",
    ),
    "labelValue": _pattern(
        f"({_QUALIFIED})?", 63, "a valid label must be empty or consist of alphanumeric characters, '-', '_' or '.'"
    ),
    "uri": _predicate(is_url, "invalid URI for request"),
    "uuid": _pattern(
        "[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{12}",
        36,
        "does not match the UUID pattern",
    ),
    "byte": _predicate(_is_base64, "invalid base64"),
    "date": _predicate(_is_date, "invalid date"),
    "datetime": _predicate(_is_moment, "invalid datetime"),
}


@declare("format.named", "(string) -> optional(Format)")
def named(name: str) -> Optional:
    return Optional(True, NamedFormat(name)) if name in _FORMATS else NONE


@declare("validate", "Format.(string) -> optional(list(string))")
def validate(format_: NamedFormat, text: str) -> Optional:
    complaints = _FORMATS[format_.name](text)
    return Optional(True, complaints) if complaints else NONE


def _declare_format(name: str) -> None:
    declare(f"format.{name}", "() -> Format")(lambda: NamedFormat(name))


for _name in _FORMATS:
    _declare_format(_name)
