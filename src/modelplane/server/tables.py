"""The columns that kubectl users know of each built-in kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final

from modelplane.api.meta import Object
from modelplane.server.columns import AGE, NAME, age, name
from modelplane.server.resource import Column

Cell = Callable[[Object, datetime], object]


def _created(obj: Object, now: datetime) -> object:
    return age((obj.get("metadata") or {}).get("creationTimestamp"), now)


def _named(obj: Object, now: datetime) -> object:
    return name(obj)


def _table(**cells: Callable[[Object], object]) -> Mapping[Column, Cell]:
    """Name, the given columns (``Up_To_Date`` reads "Up-To-Date"), age."""
    table: dict[Column, Cell] = {NAME: _named}
    for title, cell in cells.items():
        table[Column(title.replace("_", "-"))] = _plain(cell)
    table[AGE] = _created
    return table


def _plain(cell: Callable[[Object], object]) -> Cell:
    return lambda obj, now: cell(obj)


TABLES: Final[Mapping[tuple[str, str], Mapping[Column, Cell]]] = {
    ("", "ConfigMap"): _table(Data=lambda o: len(o.get("data") or {}) + len(o.get("binaryData") or {})),
    ("", "Secret"): _table(Type=lambda o: o.get("type", ""), Data=lambda o: len(o.get("data") or {})),
    ("", "Namespace"): _table(Status=lambda o: (o.get("status") or {}).get("phase", "")),
}
