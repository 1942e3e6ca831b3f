"""Who goes where, and why: pure functions over one frozen snapshot of the fleet.

    fleet = fleet_of(clusters, replicas, assumed)     # typed API objects, and placements not seen yet
    answer = plan(fleet, request_of(deployment))      # placements, removals, verdicts, the condition's words

Names are loaded when they are first used: a process that only evaluates CEL rules does not load the planner.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from modelplane.plan.fleet import Cluster, Fleet, Pool, Replica
    from modelplane.plan.outcome import Departure, Placement, Plan, Removal, State
    from modelplane.plan.placement import plan
    from modelplane.plan.request import InvalidNodeSelector, PlacementRequest
    from modelplane.plan.snapshot import cluster_of, fleet_of, replica_of, request_of
    from modelplane.plan.verdicts import Code, Verdict

_HOMES: Final = {
    "fleet": ("Cluster", "Fleet", "Pool", "Replica"),
    "outcome": ("Departure", "Placement", "Plan", "Removal", "State"),
    "placement": ("plan",),
    "request": ("InvalidNodeSelector", "PlacementRequest"),
    "snapshot": ("cluster_of", "fleet_of", "replica_of", "request_of"),
    "verdicts": ("Code", "Verdict"),
}
_HOME: Final = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "Cluster",
    "Code",
    "Departure",
    "Fleet",
    "InvalidNodeSelector",
    "Placement",
    "PlacementRequest",
    "Plan",
    "Pool",
    "Removal",
    "Replica",
    "State",
    "Verdict",
    "cluster_of",
    "fleet_of",
    "plan",
    "replica_of",
    "request_of",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return getattr(import_module(f"{__name__}.{home}"), name)
