"""`modelplane operator`: the control plane against any Kubernetes API server."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from modelplane import eventloop
from modelplane.cli.numbers import LISTENER, PORT, SECONDS
from modelplane.errors import ModelplaneError

if TYPE_CHECKING:
    from modelplane.operator.app import Options

log = logging.getLogger(__name__)


@click.command()
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path),
    help="Kubeconfig of the control cluster. Without it: $KUBECONFIG, one file or several, else the service account of the pod.",
)
@click.option("--health-port", type=PORT, help="Serve /healthz, /readyz and /metrics on this port.")
@click.option("--health-address", default="127.0.0.1", show_default=True, help="Address of both ports.")
@click.option("--webhook-port", type=PORT, help="Serve the validating webhook on this port.")
@click.option(
    "--webhook-certificate",
    type=click.Path(path_type=Path),
    help="Folder with tls.crt and tls.key for it.",
)
@click.option(
    "--chart-installer",
    type=click.Choice(["local", "none"]),
    default="none",
    show_default=True,
    help="How charts are installed. local: recorded only, for simulated clusters that have the controllers built in.",
)
@click.option(
    "--host-name", type=click.Choice(["local", "operator"]), help="What composers compose for; follows the installer."
)
@click.option("--front-door-port", type=LISTENER, help="Port that the front door listens on.")
@click.option(
    "--cluster-gateway-port",
    "gateway_ports",
    multiple=True,
    metavar="[CLUSTER=]PORT",
    help="Port that cluster gateways listen on, for all or for one cluster.",
)
@click.option(
    "--unreachable-bound",
    type=SECONDS,
    default=300.0,
    show_default=True,
    help="Seconds before an object that is being deleted lets go of a cluster that does not answer.",
)
@click.option(
    "--leader-elect/--no-leader-elect",
    default=False,
    show_default=True,
    help="Work only while holding the Lease modelplane-system/modelplane-operator, so that several can run.",
)
@click.option("--log-level", type=click.Choice(["debug", "info", "warning"]), default="info", show_default=True)
@click.option("--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(
    kubeconfig: Path | None,
    health_port: int | None,
    health_address: str,
    webhook_port: int | None,
    webhook_certificate: Path | None,
    chart_installer: str,
    host_name: str | None,
    front_door_port: int | None,
    gateway_ports: tuple[str, ...],
    unreachable_bound: float,
    leader_elect: bool,
    log_level: str,
    log_format: str,
) -> None:
    """Run the control plane against any Kubernetes API server."""
    from modelplane.kube import Kubeconfig
    from modelplane.operator.app import Options
    from modelplane.operator.logs import configure

    configure(log_level, log_format)
    if webhook_port is not None and webhook_certificate is None:
        raise click.UsageError("--webhook-port needs --webhook-certificate: API servers call webhooks over TLS only")
    simulated = chart_installer == "local"
    general, ports = _ports(gateway_ports)
    try:
        files = os.environ.get("KUBECONFIG")
        if kubeconfig is not None:
            identity = Kubeconfig.load(kubeconfig)
        else:
            identity = Kubeconfig.listed(files) if files else Kubeconfig.in_cluster(os.environ)
        options = Options(
            kubeconfig=identity,
            health_port=health_port,
            health_address=health_address,
            webhook_port=webhook_port,
            webhook_certificate=webhook_certificate or Path(),
            simulated_charts=simulated,
            host_name=host_name or ("local" if simulated else "operator"),
            front_door_port=front_door_port,
            cluster_gateway_port=general,
            cluster_gateway_ports=ports,
            unreachable_bound=unreachable_bound,
            leader_elect=leader_elect,
        )
        eventloop.run(_run(options))
    except ModelplaneError as error:
        if log_format != "json":
            raise click.ClickException(str(error)) from error
        log.error("%s", error)
        raise SystemExit(1) from error
    except Exception:
        if log_format != "json":
            raise
        log.exception("the operator ends: this is a bug of the operator")
        raise SystemExit(1) from None


def _ports(values: tuple[str, ...]) -> tuple[int | None, dict[str, int]]:
    """The port for all clusters, and those of single ones."""
    general, ports = None, {}
    for value in values:
        cluster, _, port = value.rpartition("=")
        if not port.isdigit():
            raise click.BadParameter(f"{value!r} is no [CLUSTER=]PORT", param_hint="--cluster-gateway-port")
        try:
            number = LISTENER.convert(port, None, None)
        except click.BadParameter as error:
            error.param_hint = "--cluster-gateway-port"
            raise
        if cluster:
            ports[cluster] = number
        else:
            general = number
    return general, ports


def _unhandled(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What the event loop tells of outside of any task. A connection that broke while nobody waited is asked for anew when it is
    needed, which is no error of this process; uvloop reports it with a traceback."""
    transport = context.get("transport")
    if transport is not None and transport.is_closing():
        log.debug("a connection broke: %s", context.get("exception") or context.get("message"))
    else:
        loop.default_exception_handler(context)


async def _run(options: Options) -> None:
    from modelplane.operator.app import Operator

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_unhandled)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    operator = Operator(options)
    stopped = asyncio.create_task(stop.wait())
    try:
        starting = asyncio.create_task(operator.start())
        await asyncio.wait({starting, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            starting.cancel()
            return
        await starting
        failing = asyncio.create_task(operator.failed())
        await asyncio.wait({failing, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if failing.done():
            await failing
    finally:
        await operator.close()
