"""An engine of single pods: one Deployment.

It rolls without surge, since a pool is usually full and a surge pod would wait forever. With that setting the Deployment
controller calls one copy Available even while it is down, so readiness counts pods instead of reading that condition.
"""

from __future__ import annotations

from typing import Final

from modelplane.api.labels import WORKLOAD
from modelplane.api.meta import Object
from modelplane.compose.contract import Cel, Child
from modelplane.compose.kinds import DEPLOYMENT, manifest
from modelplane.compose.workloads.ground import Ground
from modelplane.compose.workloads.pod import STARTUP_SECONDS, pod_template

SERVING: Final = Cel(
    "has(object.status) && has(object.status.observedGeneration)"
    " && object.status.observedGeneration >= object.metadata.generation"
    " && has(object.status.updatedReplicas) && object.status.updatedReplicas >= 1"
    " && has(object.status.availableReplicas) && object.status.availableReplicas >= 1"
    " && object.status.availableReplicas >= object.spec.replicas - 1"
)
"""The controller has seen the newest spec, a pod of it exists, and at most the one copy that may be rolling is missing."""


def key_of(engine: str) -> str:
    return f"model-serving-{engine}"


def standalone(ground: Ground, engine: Object) -> Child:
    name = ground.workload(engine["name"])
    selector = {WORKLOAD: name}
    template = pod_template(
        ground, engine["name"], engine["members"][0], serving=True, labels=selector, keep_empty_args=True
    )
    spec = {
        "replicas": int(engine.get("copies") or 1),
        "selector": {"matchLabels": selector},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
        "progressDeadlineSeconds": STARTUP_SECONDS + 600,
        "template": template,
    }
    return Child(
        key=key_of(engine["name"]),
        manifest=manifest(DEPLOYMENT, name, ground.remote_namespace, spec=spec),
        target=ground.cluster,
        ready=SERVING,
        immutable=("spec.selector",),
    )
