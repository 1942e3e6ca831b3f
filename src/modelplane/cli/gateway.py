"""`modelplane gateway`: run the Envoy proxies that Gateway API objects ask for."""

from __future__ import annotations

from pathlib import Path

import click

from modelplane.cli import extra
from modelplane.cli.numbers import PORT

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Where ports, logs and records lie.",
)
@click.option("--control", type=_FILE, help="Kubeconfig of the control cluster, for the front door.")
@click.option(
    "--cluster", "clusters", multiple=True, metavar="NAME=FILE", help="A cluster and its kubeconfig; repeatable."
)
@click.option(
    "--kubeconfig", type=_FILE, help="Kubeconfig of a single cluster, for front door and cluster gateway alike."
)
@click.option(
    "--front-door-port",
    type=PORT,
    default=80,
    show_default=True,
    envvar="MODELPLANE_FRONT_DOOR_PORT",
    show_envvar=True,
    help="The port that the front door takes if it can; 0 and a port that cannot be had mean a free one, which is kept.",
)
@click.option(
    "--address", default="127.0.0.1", show_default=True, help="The local address that every proxy listens on."
)
@click.option("--verbose", is_flag=True, help="Log what is done, not only what goes wrong.")
def command(
    data_dir: Path,
    control: Path | None,
    clusters: tuple[str, ...],
    kubeconfig: Path | None,
    front_door_port: int,
    address: str,
    verbose: bool,
) -> None:
    """Turn Gateway API objects into running Envoy proxies.

    Serves GatewayClasses of traefik.io/gateway-controller on the control cluster and of
    gateway.envoyproxy.io/gatewayclass-controller on the others. SIGTERM ends the proxies; after a crash they go on
    serving, and the next start adopts them.
    """
    import asyncio
    import logging
    import signal

    from modelplane.errors import ModelplaneError

    extra.need(extra.GATEWAY)
    from modelplane.gateway.attachment import CLUSTER_GATEWAY, FRONT_DOOR
    from modelplane.gateway.serve import Cluster, serve

    targets: list[Cluster] = []
    if control is not None:
        targets.append(
            Cluster(name="control", kubeconfig=control, controllers=frozenset({FRONT_DOOR}), port=front_door_port)
        )
    for entry in clusters:
        name, equals, file = entry.partition("=")
        if not equals or not name or not file or "/" in name:
            raise click.BadParameter(f"{entry!r} is not NAME=KUBECONFIG", param_hint="--cluster")
        targets.append(Cluster(name=name, kubeconfig=Path(file), controllers=frozenset({CLUSTER_GATEWAY})))
    if kubeconfig is not None:
        both = frozenset({FRONT_DOOR, CLUSTER_GATEWAY})
        targets.append(Cluster(name="cluster", kubeconfig=kubeconfig, controllers=both, port=front_door_port))
    if not targets:
        raise click.UsageError("name a cluster: --control FILE, --cluster NAME=FILE or --kubeconfig FILE")
    names = [target.name for target in targets]
    if len(set(names)) < len(names):
        raise click.UsageError("each cluster needs a name of its own; `control` and `cluster` are taken by the options")

    logging.basicConfig(
        level=logging.INFO if verbose else logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )

    async def run() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        await serve(data_dir, targets, stop, address)

    try:
        asyncio.run(run())
    except ModelplaneError as error:
        raise click.ClickException(str(error)) from error
