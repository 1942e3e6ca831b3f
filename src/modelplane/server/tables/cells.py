"""What tables of built-in kinds are made of: columns with the functions that make their cells."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from typing import TypeAlias

from modelplane.api.meta import GVK, Object
from modelplane.server.columns import AGE, NAME, created, name_of
from modelplane.server.resource import Column
from modelplane.server.tables.words import described

Cell: TypeAlias = Callable[[Object, datetime], object]
Plain: TypeAlias = Callable[[Object], object]
Table: TypeAlias = Mapping[Column, Cell]
NONE = "<none>"
UNSET = "<unset>"
UNKNOWN = "<unknown>"


class CodePrinter:
    """Columns of a built-in kind."""

    def __init__(self, cells: Table, gvk: GVK) -> None:
        self._gvk = gvk
        self._plain = tuple(cells)
        self._cells = tuple(cells.values())

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return tuple(replace(column, description=described(self._gvk, column.name)) for column in self._plain)

    def row(self, obj: Object, now: datetime) -> list[object]:
        return [cell(obj, now) for cell in self._cells]


def table(*columns: tuple[Column, Cell], wide: tuple[tuple[Column, Cell], ...] = (), name: Plain = name_of) -> Table:
    """Name, the given columns, age, and the columns that only `-o wide` shows."""
    return {NAME: untimed(name), **dict(columns), AGE: created, **dict(wide)}


def column(title: str, cell: Plain, type_: str = "string") -> tuple[Column, Cell]:
    return Column(title, type_), untimed(cell)


def timed(title: str, cell: Cell) -> tuple[Column, Cell]:
    return Column(title), cell


def wide(title: str, cell: Plain) -> tuple[Column, Cell]:
    return Column(title, priority=1), untimed(cell)


def number(title: str, cell: Plain) -> tuple[Column, Cell]:
    return column(title, lambda obj: cell(obj) or 0, "integer")


def untimed(cell: Plain) -> Cell:
    return lambda obj, now: cell(obj)


def spec(obj: Object) -> Object:
    return obj.get("spec") or {}


def status(obj: Object) -> Object:
    return obj.get("status") or {}


def created_at() -> tuple[Column, Cell]:
    """The creation time itself, for kinds whose table has no age."""
    return column("Created At", lambda obj: (obj.get("metadata") or {}).get("creationTimestamp", ""), "date")


def comma(values: Iterable[object], limit: int = 0) -> str:
    """Values with commas, ``<none>`` without any, and how many more there are beyond ``limit``."""
    texts = [str(value) for value in values]
    if not texts:
        return NONE
    if limit and len(texts) > limit:
        return f"{','.join(texts[:limit])} + {len(texts) - limit} more..."
    return ",".join(texts)


def labels(values: Mapping[str, object] | None) -> str:
    return comma(f"{key}={value}" for key, value in sorted((values or {}).items()))


def selector(value: Object | None) -> str:
    """A label selector as kubectl writes it: ``app=web,tier in (a,b)``."""
    if not value:
        return NONE
    parts = [f"{key}={text}" for key, text in sorted((value.get("matchLabels") or {}).items())]
    for term in value.get("matchExpressions") or ():
        key, operator, values = term.get("key"), term.get("operator"), ",".join(sorted(term.get("values") or ()))
        forms = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "Exists": key}
        parts.append(str(forms.get(operator, f"!{key}")))
    return comma(parts)
