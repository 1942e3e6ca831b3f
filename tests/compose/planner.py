"""The real planner over the objects of a fleet in memory."""

from __future__ import annotations

from modelplane.api import inference_cluster, model_replica
from modelplane.compose.kinds import INFERENCE_CLUSTER, MODEL_REPLICA
from modelplane.plan.outcome import Plan
from modelplane.plan.placement import plan
from modelplane.plan.request import PlacementRequest
from modelplane.plan.snapshot import fleet_of
from tests.compose.fleet import Fleet


def planner(fleet: Fleet, request: PlacementRequest) -> Plan:
    """One placing step: in memory every pass is carried out at once, so nothing is ever only assumed."""
    clusters = [inference_cluster.parse(obj) for obj in fleet.all(INFERENCE_CLUSTER)]
    replicas = [model_replica.parse(obj) for obj in fleet.all(MODEL_REPLICA)]
    return plan(fleet_of(clusters, replicas), request)
