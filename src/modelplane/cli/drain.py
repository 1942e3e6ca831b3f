"""`modelplane drain`: move every replica off a cluster, as far as others have room."""

from __future__ import annotations

from pathlib import Path

import click

from modelplane.cli import options

FIELD_MANAGER = "modelplane-drain"
TAINT = {"key": "modelplane.ai/drain", "effect": "NoExecute"}


@click.command()
@click.argument("cluster")
@options.data_dir
@options.kubeconfig
def command(cluster: str, data_dir: Path, kubeconfig: Path | None) -> None:
    """Put the drain taint on CLUSTER, so that its replicas move to other clusters.

    The taint belongs to a field manager of its own, so GitOps does not undo it; `modelplane undrain` takes it away.
    """
    options.run(set_taints(cluster, [TAINT], data_dir, kubeconfig))
    click.echo(f"{cluster} is draining; watch `kubectl get modelreplicas -A -w`")


async def set_taints(cluster: str, taints: list[dict[str, str]], data_dir: Path, kubeconfig: Path | None) -> None:
    """Apply exactly these taints under the drain's field manager. Raises NotFound when there is no such cluster."""
    from modelplane.api.inference_cluster import KIND

    async with options.control_client(data_dir, kubeconfig) as client:
        found = await client.get(KIND, cluster)
        await client.apply(
            {
                "apiVersion": KIND.api_version,
                "kind": KIND.kind,
                # The uid keeps a cluster that is deleted meanwhile from being made anew by this apply.
                "metadata": {"name": cluster, "uid": found["metadata"]["uid"]},
                "spec": {"taints": taints} if taints else {},
            },
            field_manager=FIELD_MANAGER,
        )
