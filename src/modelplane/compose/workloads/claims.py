"""The ResourceClaimTemplate of a member: what its pods claim from the node that they land on."""

from __future__ import annotations

from modelplane.api.meta import Object
from modelplane.compose.contract import Child
from modelplane.compose.kinds import RESOURCE_CLAIM_TEMPLATE, manifest
from modelplane.compose.workloads.ground import Ground
from modelplane.compose.workloads.pod import role_of


def claim_templates(ground: Ground, engine: Object) -> list[Child]:
    """One template per member that requests devices. Kubernetes never lets its spec change, so a change replaces it."""
    return [
        Child(
            key=f"resource-claim-{engine['name']}-{role_of(member).lower()}",
            manifest=manifest(
                RESOURCE_CLAIM_TEMPLATE,
                ground.claim_template(engine["name"], role_of(member)),
                ground.remote_namespace,
                spec={"spec": {"devices": {"requests": [_request(r) for r in member["deviceRequests"]]}}},
            ),
            target=ground.cluster,
            immutable=("spec",),
        )
        for member in engine["members"]
        if member.get("deviceRequests")
    ]


def _request(request: Object) -> Object:
    exactly: Object = {"deviceClassName": request["deviceClassName"], "count": int(request.get("count") or 1)}
    selectors = [{"cel": {"expression": s["cel"]}} for s in request.get("selectors") or () if s.get("cel")]
    if selectors:
        exactly["selectors"] = selectors
    return {"name": request["name"], "exactly": exactly}
