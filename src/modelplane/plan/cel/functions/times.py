"""Durations and timestamps: their texts and their parts."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from typing import Final

from modelplane.plan.cel.functions.conversions import conversion_fault
from modelplane.plan.cel.functions.operators import moment as moment_of
from modelplane.plan.cel.registry import declare
from modelplane.plan.cel.values import Duration, Timestamp, Value

_UNITS: Final = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_PIECE: Final = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_MOMENT: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d{1,2}):(\d\d):(\d\d)(?:[.,](\d{1,9})\d*)?(?:Z|([+-])(\d\d):(\d\d))", re.ASCII
)


@declare("duration", "(duration) -> duration", "(int) -> duration", "(string) -> duration")
def to_duration(value: Value) -> Value:
    if isinstance(value, int):
        raise conversion_fault(value, "google.protobuf.Duration")  # declared by Kubernetes, and never done
    if not isinstance(value, str):
        return value
    body = value[1:] if value[:1] in ("+", "-") else value
    total, at = 0, (1 if body == "0" else 0)
    while at < len(body):
        piece = _PIECE.match(body, at)
        if piece is None or not (piece[1] or piece[2]) or len(piece[0]) > 60:
            raise conversion_fault(value, "google.protobuf.Duration")
        unit = _UNITS[piece[3]]
        total += int(piece[1] or 0) * unit
        if piece[2]:
            total += int(piece[2]) * unit // 10 ** len(piece[2])
        at = piece.end()
    if not body or abs(total) > 2**63 - 1:
        raise conversion_fault(value, "google.protobuf.Duration")
    return Duration(-total if value[0] == "-" else total)


@declare("timestamp", "(timestamp) -> timestamp", "(int) -> timestamp", "(string) -> timestamp")
def to_timestamp(value: Value) -> Value:
    if isinstance(value, int):
        return moment_of(value * 10**9)
    if not isinstance(value, str):
        return value
    match = _MOMENT.fullmatch(value)
    if match is None:
        raise conversion_fault(value, "google.protobuf.Timestamp")
    year, month, day, hour, minute, second = (int(match[index]) for index in range(1, 7))
    try:
        moment = datetime.datetime(year, month, day, hour, minute, second, tzinfo=datetime.UTC)
    except ValueError:
        raise conversion_fault(value, "google.protobuf.Timestamp") from None
    seconds = (moment - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)) // datetime.timedelta(seconds=1)
    if match[8]:
        offset = int(match[9]) * 3600 + int(match[10]) * 60
        seconds -= offset if match[8] == "+" else -offset
    if match[8] and (int(match[9]) > 24 or int(match[10]) > 60):
        raise conversion_fault(value, "google.protobuf.Timestamp")
    return moment_of(seconds * 10**9 + int((match[7] or "0").ljust(9, "0")))


_PARTS: Final[dict[str, Callable[[datetime.datetime], int]]] = {
    "getFullYear": lambda moment: moment.year,
    "getMonth": lambda moment: moment.month - 1,
    "getDayOfYear": lambda moment: moment.timetuple().tm_yday - 1,
    "getDayOfMonth": lambda moment: moment.day - 1,
    "getDate": lambda moment: moment.day,
    "getDayOfWeek": lambda moment: moment.isoweekday() % 7,
    "getHours": lambda moment: moment.hour,
    "getMinutes": lambda moment: moment.minute,
    "getSeconds": lambda moment: moment.second,
    "getMilliseconds": lambda moment: moment.microsecond // 1000,
}
_CYCLE: Final = 146_097 * 86_400 * 10**9
_SPANS: Final = {"getHours": 3600 * 10**9, "getMinutes": 60 * 10**9, "getSeconds": 10**9, "getMilliseconds": 10**6}


def _declare_part(name: str, part: Callable[[datetime.datetime], int]) -> None:
    @declare(name, "timestamp.() -> int", "timestamp.(string) -> int")
    def of_timestamp(moment: Timestamp, zone: str | None = None) -> int:
        try:
            return part(moment.local(zone))
        except OverflowError:
            # Only the zone leads out of the years that Python knows. The calendar comes again every 400 years.
            later = -1 if moment.nanoseconds > 0 else 1
            again = Timestamp(moment.nanoseconds + later * _CYCLE)
            return part(again.local(zone)) - (later * 400 if name == "getFullYear" else 0)

    if name in _SPANS:

        @declare(name, "duration.() -> int")
        def of_duration(span: Duration) -> int:
            quotient = abs(span.nanoseconds) // _SPANS[name]
            return quotient if span.nanoseconds >= 0 else -quotient


for _name, _part in _PARTS.items():
    _declare_part(_name, _part)
