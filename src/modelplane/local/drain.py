"""Drain and undrain a cluster: one taint under a field manager of its own, so that GitOps does not undo it."""

from __future__ import annotations

from typing import Final

from modelplane.api.inference_cluster import KIND
from modelplane.api.labels import DRAIN_TAINT
from modelplane.kube.client import Client

FIELD_MANAGER: Final = "modelplane-drain"
TAINT: Final = {"key": DRAIN_TAINT, "effect": "NoExecute"}


async def set_taints(client: Client, cluster: str, *, drain: bool) -> None:
    """Set or take away the drain taint. Raises NotFound when there is no such cluster."""
    found = await client.get(KIND, cluster)
    await client.apply(
        {
            "apiVersion": KIND.api_version,
            "kind": KIND.kind,
            # The uid keeps a cluster that is deleted meanwhile from being made anew by this apply.
            "metadata": {"name": cluster, "uid": found["metadata"]["uid"]},
            "spec": {"taints": [TAINT]} if drain else {},
        },
        field_manager=FIELD_MANAGER,
    )
