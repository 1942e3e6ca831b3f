"""String formats that a CustomResourceDefinition may ask for; unknown ones are accepted, as kube-apiserver does."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable
from datetime import date, datetime
from functools import lru_cache
from typing import Final, Protocol
from urllib.parse import urlsplit

_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:?\d\d)?")
_DURATION = re.compile(
    r"[-+]?(0|(\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h|d|w)([\d.]+(ns|us|µs|ms|s|m|h|d|w))*)|\d+ ?[a-z]+"
)
_HOSTNAME = (
    r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)|([a-zA-Z0-9\p{S}\p{L}]"
    r"(([a-zA-Z0-9-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}([a-zA-Z\p{L}]){2,63})$"
)
_HEX = "[0-9a-fA-F]"
_MAC = re.compile(r"([0-9A-Fa-f]{2}[:-]){5}([0-9A-Fa-f]{2})")
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+")
_QUANTITY = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?\d+)?")
QUANTITY_WORDS: Final = r"quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


def _parses(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            parse(text)
        except (ValueError, binascii.Error):
            return False
        return True

    return check


def _matches(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    return lambda text: pattern.fullmatch(text) is not None


def _uuid(third: str, fourth: str) -> Callable[[str], bool]:
    return _matches(re.compile(f"{_HEX}{{8}}-?{_HEX}{{4}}-?{third}-?{fourth}-?{_HEX}{{12}}"))


def _hostname(text: str) -> bool:
    """As Kubernetes' OpenAPI library has it: a single label of anything, or labels before a top-level one of letters."""
    return (
        len(text) <= 255 and bool(pattern(_HOSTNAME).search(text)) and all(len(part) <= 63 for part in text.split("."))
    )


def _uri(text: str) -> bool:
    parts = urlsplit(text)
    return bool(parts.scheme) or text.startswith("/")


@lru_cache(maxsize=256)
def _date_time(text: str) -> bool:
    if not _DATE_TIME.fullmatch(text):
        return False
    return _parses(datetime.fromisoformat)(re.sub(r"\.\d+", "", text).upper())


_FORMATS: Final[dict[str, Callable[[str], bool]]] = {
    "date-time": _date_time,
    "datetime": _date_time,
    "date": _parses(date.fromisoformat),
    "duration": _matches(_DURATION),
    "byte": lambda text: text != "" and _parses(lambda value: base64.b64decode(value, validate=True))(text),
    "uri": _uri,
    "email": _matches(_EMAIL),
    "hostname": _hostname,
    "ipv4": _parses(ipaddress.IPv4Address),
    "ipv6": _parses(ipaddress.IPv6Address),
    "cidr": lambda text: "/" in text and _parses(lambda value: ipaddress.ip_network(value, strict=False))(text),
    "mac": _matches(_MAC),
    "uuid": _uuid(_HEX + "{4}", _HEX + "{4}"),
    "uuid3": _uuid("3" + _HEX + "{3}", _HEX + "{4}"),
    "uuid4": _uuid("4" + _HEX + "{3}", "[89abAB]" + _HEX + "{3}"),
    "uuid5": _uuid("5" + _HEX + "{3}", "[89abAB]" + _HEX + "{3}"),
}
RANGES: Final = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}


def conforms(format_: str, value: object) -> bool:
    """Whether a string or an integer is of a format; what the format does not speak of conforms."""
    if isinstance(value, str):
        check = _FORMATS.get(format_)
        return check is None or check(value)
    if isinstance(value, int) and format_ in RANGES:
        low, high = RANGES[format_]
        return low <= value <= high
    return True


def is_quantity(value: object) -> bool:
    """Whether a value is a resource quantity: ``1``, ``"500m"``, ``"2Gi"``."""
    if isinstance(value, bool):
        return False
    return isinstance(value, int | float) or (isinstance(value, str) and _QUANTITY.fullmatch(value) is not None)


class Pattern(Protocol):
    def search(self, text: str) -> object: ...


@lru_cache(maxsize=4096)
def pattern(text: str) -> Pattern:
    """A compiled pattern in RE2's language, which is what Kubernetes means by ``pattern``. Raises ValueError."""
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        compiled: Pattern = re2.compile(text, options)
    except re2.error as error:
        told = error.args[0] if error.args else error
        raise ValueError(told.decode(errors="replace") if isinstance(told, bytes) else str(told)) from error
    return compiled
