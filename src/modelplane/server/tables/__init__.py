"""The columns that kubectl users know of each built-in kind. Imported when the first table is asked for."""

from __future__ import annotations

from modelplane.api.meta import GVK
from modelplane.server.columns import AGE, NAME, created, name_of
from modelplane.server.resource import Printer
from modelplane.server.tables import core, network, pods, policy, storage, workloads
from modelplane.server.tables.cells import CodePrinter, Table

_TABLES: dict[tuple[str, str], Table] = {
    **core.TABLES,
    **network.TABLES,
    **pods.TABLES,
    **policy.TABLES,
    **storage.TABLES,
    **workloads.TABLES,
}
_PLAIN: Table = {NAME: lambda obj, now: name_of(obj), AGE: created}


def printer(gvk: GVK) -> Printer:
    """The printer of a built-in kind."""
    return CodePrinter(_TABLES.get((gvk.group, gvk.kind), _PLAIN), gvk)
