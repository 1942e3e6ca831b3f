"""Tables: the columns of `kubectl get`, for built-in kinds by code and for custom kinds by JSON path."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from modelplane.api.meta import GVK, Object
from modelplane.server.resource import Column, Printer

NAME = Column("Name", format="name", description="Name must be unique within a namespace.")
AGE = Column("Age", description="The time since the object was created.")


def age(since: object, now: datetime) -> str:
    """kubectl's short age: at most two units, ``<unknown>`` for what is no time."""
    then = moment(since)
    if then is None:
        return "<unknown>"
    seconds = int((now - then).total_seconds())
    return "<invalid>" if seconds < -1 else "0s" if seconds < 0 else duration(seconds)


def moment(text: object) -> datetime | None:
    """A timestamp of the API as an aware datetime."""
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
    hours = seconds // 3600
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    days = hours // 24
    if hours < 192:
        return _two(days, "d", hours % 24, "h")
    if hours < 24 * 365 * 2:
        return f"{days}d"
    years = days // 365
    if hours < 24 * 365 * 8:
        return _two(years, "y", days % 365, "d")
    return f"{years}y"


def _two(first: int, unit: str, second: int, smaller: str) -> str:
    return f"{first}{unit}{second}{smaller}" if second else f"{first}{unit}"


def name(obj: Object) -> object:
    return (obj.get("metadata") or {}).get("name", "")


class NamePrinter:
    """Name and age: what a kind without columns of its own shows."""

    columns = (NAME, AGE)

    def row(self, obj: Object, now: datetime) -> list[object]:
        return [name(obj), age((obj.get("metadata") or {}).get("creationTimestamp"), now)]


Cell = Callable[[Object, datetime], object]


class CodePrinter:
    """Columns of a built-in kind, each with the function that makes its cell."""

    def __init__(self, cells: Mapping[Column, Cell]) -> None:
        self.columns = tuple(cells)
        self._cells = tuple(cells.values())

    def row(self, obj: Object, now: datetime) -> list[object]:
        return [cell(obj, now) for cell in self._cells]


def builtin_printer(gvk: GVK) -> Printer:
    """The printer of a built-in kind."""
    from modelplane.server.tables import TABLES

    cells = TABLES.get((gvk.group, gvk.kind))
    return CodePrinter(cells) if cells else NamePrinter()
