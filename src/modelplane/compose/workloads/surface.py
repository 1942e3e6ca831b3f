"""The routing surface of a replica on its cluster: a pool of serving pods, and a route under the replica's own path.

One surface per replica whatever its engines and copies, also for a single pod, so that growing never swaps a Service for a
pool.
"""

from __future__ import annotations

from modelplane.api.labels import SERVING
from modelplane.api.meta import SYSTEM_NAMESPACE
from modelplane.compose.contract import Child
from modelplane.compose.kinds import HTTP_ROUTE, INFERENCE_POOL, manifest
from modelplane.compose.stack.gateway import CLUSTER_GATEWAY
from modelplane.compose.workloads.ground import Ground
from modelplane.compose.workloads.picker import PORT as PICKER_PORT
from modelplane.compose.workloads.pod import PORT


def surface(ground: Ground) -> list[Child]:
    pool = {
        "selector": {"matchLabels": {SERVING: ground.replica}},
        "targetPorts": [{"number": PORT}],
        "endpointPickerRef": {"name": ground.picker, "port": {"number": PICKER_PORT}, "failureMode": "FailOpen"},
    }
    strip = {"type": "URLRewrite", "urlRewrite": {"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/"}}}
    route = {
        "parentRefs": [{"name": CLUSTER_GATEWAY, "namespace": SYSTEM_NAMESPACE}],
        "rules": [
            {
                "matches": [{"path": {"type": "PathPrefix", "value": ground.path}}],
                "filters": [strip],
                "backendRefs": [
                    {"group": INFERENCE_POOL.group, "kind": INFERENCE_POOL.kind, "name": ground.pool},
                ],
                # Envoy's own default of 15 s would cut token streams.
                "timeouts": {"request": "0s"},
            }
        ],
    }
    return [
        Child(
            key="inference-pool",
            manifest=manifest(INFERENCE_POOL, ground.pool, ground.remote_namespace, spec=pool),
            target=ground.cluster,
        ),
        Child(
            key="model-route",
            manifest=manifest(HTTP_ROUTE, ground.replica, ground.remote_namespace, spec=route),
            target=ground.cluster,
        ),
    ]
