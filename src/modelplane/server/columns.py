"""Tables: the columns of `kubectl get`, for custom kinds by JSON path and for built-in kinds by code (``tables``)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property

from modelplane.api.meta import GVK, Object
from modelplane.server import jsonpath
from modelplane.server.resource import Column, Printer

_ANY = GVK("", "v1", "ConfigMap")
"""Any built-in kind: what it says about metadata holds for custom kinds as well."""
NAME = Column("Name", format="name")
AGE = Column("Age")


def age(since: object, now: datetime) -> str:
    """kubectl's short age: at most two units, ``<unknown>`` for what is no time."""
    then = moment(since)
    if then is None:
        return "<unknown>"
    seconds = (now - then).total_seconds()
    return "<invalid>" if seconds <= -2 else "0s" if seconds < 0 else duration(int(seconds))


def moment(text: object) -> datetime | None:
    """A timestamp of the API as an aware datetime, None for what is no timestamp."""
    if not isinstance(text, str):
        return None
    try:
        then = datetime.fromisoformat(text)
    except ValueError:
        return None
    return then if then.tzinfo else then.replace(tzinfo=UTC)


def duration(seconds: int) -> str:
    """``5m30s``, ``3h``, ``12d``: the same steps as kubectl's own."""
    if seconds < 120:
        return f"{seconds}s"
    minutes = seconds // 60
    if minutes < 10:
        return _two(minutes, "m", seconds % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    hours = minutes // 60
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    days = hours // 24
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    years = days // 365
    return _two(years, "y", days % 365, "d") if years < 8 else f"{years}y"


def _two(first: int, unit: str, second: int, smaller: str) -> str:
    return f"{first}{unit}{second}{smaller}" if second else f"{first}{unit}"


def name_of(obj: Object) -> object:
    return (obj.get("metadata") or {}).get("name", "")


def created(obj: Object, now: datetime) -> str:
    return age((obj.get("metadata") or {}).get("creationTimestamp"), now)


class PathPrinter:
    """The columns of a custom kind: ``additionalPrinterColumns`` of one version, or name and age without any."""

    def __init__(self, columns: Sequence[Object] = ()) -> None:
        chosen = columns or [{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}]
        self._columns: tuple[Column, ...] = (
            *(
                Column(
                    column["name"],
                    column.get("type", "string"),
                    column.get("format", ""),
                    column.get("description")
                    or f"Custom resource definition column (in JSONPath format): {column['jsonPath']}",
                    column.get("priority", 0),
                )
                for column in chosen
            ),
        )
        self._paths = tuple(jsonpath.parse(column["jsonPath"]) for column in chosen)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        from modelplane.server.tables.words import described

        return replace(NAME, description=described(_ANY, NAME.name)), *self._columns

    def row(self, obj: Object, now: datetime) -> list[object]:
        cells = (
            _cell(column.type, path.find(obj), now) for column, path in zip(self._columns, self._paths, strict=True)
        )
        return [name_of(obj), *cells]


def _cell(type_: str, found: list[object], now: datetime) -> object:
    if not found or (found[0] is None and type_ != "string"):
        return None
    value = found[0]
    if type_ == "date":
        then = moment(value)
        return age(value, now) if then is not None else "<invalid>" if isinstance(value, str) else None
    if type_ == "string":
        return " ".join(_text(item) for item in found)
    if type_ == "boolean":
        return value if isinstance(value, bool) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if type_ == "integer" else float(value)


def _text(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def builtin_printer(gvk: GVK) -> Printer:
    """The printer of a built-in kind; kinds without columns of their own show name and age."""
    from modelplane.server.tables import printer

    return printer(gvk)
