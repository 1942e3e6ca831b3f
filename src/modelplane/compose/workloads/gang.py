"""An engine of a leader and workers: one LeaderWorkerSet, whose copies are gangs.

Only the leader serves, so only leaders carry the label that the pool selects. Leader and workers may stand in different
pools and claim different devices.
"""

from __future__ import annotations

from typing import Final

from modelplane.api.labels import LEADER_ADDRESS_VARIABLE, LEADER_ROLE, RANK_VARIABLE
from modelplane.api.meta import Object
from modelplane.compose.contract import Cel, Child
from modelplane.compose.kinds import LEADER_WORKER_SET, manifest
from modelplane.compose.names import service_name
from modelplane.compose.workloads.ground import Ground
from modelplane.compose.workloads.pod import pod_template, role_of

AVAILABLE: Final = Cel(
    "has(object.status) && has(object.status.conditions)"
    " && object.status.conditions.exists(c, c.type == 'Available' && c.status == 'True')"
)

_ENV: Final = (
    {"name": LEADER_ADDRESS_VARIABLE, "value": "$(LWS_LEADER_ADDRESS)"},
    {"name": RANK_VARIABLE, "value": "$(LWS_WORKER_INDEX)"},
)


def is_gang(engine: Object) -> bool:
    return any(role_of(member) != "Standalone" for member in engine["members"])


def key_of(engine: str) -> str:
    return f"model-gang-{engine}"


def gang(ground: Ground, engine: Object) -> Child:
    members = {role_of(member): member for member in engine["members"]}
    leader, worker = members["Leader"], members["Worker"]
    workers = int((worker.get("worker") or {}).get("nodes") or 1)
    spec = {
        "replicas": int(engine.get("copies") or 1),
        "leaderWorkerTemplate": {
            "size": 1 + workers,
            "leaderTemplate": pod_template(
                ground, engine["name"], leader, serving=True, labels={LEADER_ROLE: "leader"}, env=_ENV
            ),
            "workerTemplate": pod_template(ground, engine["name"], worker, serving=False, labels={}, env=_ENV),
        },
    }
    # Its controller makes a Service of the same name, for the pods' addresses.
    name = service_name(ground.workload(engine["name"]))
    return Child(
        key=key_of(engine["name"]),
        manifest=manifest(LEADER_WORKER_SET, name, ground.remote_namespace, spec=spec),
        target=ground.cluster,
        ready=AVAILABLE,
    )
