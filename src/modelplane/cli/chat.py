"""`modelplane chat`: one question to a ModelService through the front door."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from modelplane.api.meta import Object
from modelplane.cli import options
from modelplane.cli.output import say


@click.command()
@click.argument("service", metavar="NAMESPACE/SERVICE")
@click.argument("text")
@options.data_dir
@options.kubeconfig
@click.option("--model", help="Model name to ask for; the first that the service lists when left out.")
def command(service: str, text: str, data_dir: Path, kubeconfig: Path | None, model: str | None) -> None:
    """Ask NAMESPACE/SERVICE the TEXT and stream the answer."""
    namespace, slash, name = service.partition("/")
    if not slash or not namespace or not name or "/" in name:
        raise click.BadParameter(
            f"{service!r} is not NAMESPACE/SERVICE, such as ml-team/mock", param_hint="NAMESPACE/SERVICE"
        )
    options.run(_chat(namespace, name, text, data_dir, kubeconfig, model))


async def _chat(
    namespace: str, name: str, text: str, data_dir: Path, kubeconfig: Path | None, model: str | None
) -> None:
    import aiohttp

    from modelplane.api import model_replica
    from modelplane.api.model_service import KIND
    from modelplane.local import ask

    async with options.control_client(data_dir, kubeconfig) as client:
        service = await options.get(client, KIND, name, namespace)
        replicas = await client.list(model_replica.KIND, namespace)
    address = (service.get("status") or {}).get("address")
    if not address:
        raise click.ClickException(
            f"{namespace}/{name} has no address yet; `kubectl describe modelservice {name} -n {namespace}` says why"
        )
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None, sock_connect=10)) as session:
        if model is None:
            # What replicas were seen to serve; asking the service would take a turn away from the question.
            served = _served(service, replicas.items) or await ask.models(session, address)
            if not served:
                raise click.ClickException(f"{address} lists no model; see `modelplane status`")
            model = served[0]
        answer = await ask.chat(session, address, model, text)
        async for piece in answer.pieces():
            say(piece, nl=False)
        say()


def _served(service: Object, replicas: Sequence[Object]) -> list[str]:
    """Models that the replicas behind a service were seen to serve."""
    selectors = [(entry.get("selector") or {}).get("matchLabels") or {} for entry in service["spec"]["endpoints"]]
    behind = [
        replica
        for replica in replicas
        if any(wanted.items() <= (replica["metadata"].get("labels") or {}).items() for wanted in selectors)
    ]
    return [name for replica in behind for name in (replica.get("status") or {}).get("models") or ()]
