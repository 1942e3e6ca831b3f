"""The `modelplane` command: one module per verb, imported only when that verb runs."""

from __future__ import annotations

import importlib
import sys
from typing import Any, Final

import click

from modelplane.cli.output import INTERRUPTED, telling

VERBS: Final = {
    "apiserver": "Serve the Kubernetes API from a data directory.",
    "check": "Judge manifests offline, in the API server's words.",
    "chat": "Ask a ModelService a question and stream the answer.",
    "cluster": "Run one simulated cluster: API server, scheduler, controllers, nodes.",
    "controllers": "Run the workload controllers of a simulated cluster.",
    "demo": "Walk through a two-region fleet on this machine.",
    "down": "Stop the local fleet.",
    "drain": "Move replicas off a cluster.",
    "explain": "Say why replicas are where they are, or nowhere.",
    "match": "Try a device selector on the fleet's devices.",
    "gateway": "Turn Gateway API objects into running Envoy proxies.",
    "nodes": "Run the node runtime of a simulated cluster.",
    "operator": "Run the control plane against any Kubernetes API server.",
    "plan": "Rehearse a change: what would be placed, moved and refused.",
    "snapshot": "Save what placement reads of a fleet, for rehearsals.",
    "scheduler": "Run the pod scheduler of a simulated cluster.",
    "shell": "Open a shell where the local fleet can be reached.",
    "status": "Show clusters, pools, replicas and endpoints.",
    "undrain": "Let replicas come back to a cluster.",
    "up": "Start a local fleet and leave it running.",
}


class _Verbs(click.Group):
    """Looks a verb's module up only when it is called, so that every command starts fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        module = importlib.import_module(f"modelplane.cli.{cmd_name}")
        command: click.Command = module.command
        return command

    def main(self, *args: Any, **extra: Any) -> Any:
        try:
            return super().main(*args, **extra)
        except OSError:
            # Not even the complaint could be written.
            if not extra.get("standalone_mode", True):
                raise
            sys.exit(1)

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        with telling():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with telling():
                return super().invoke(ctx)
        except KeyboardInterrupt:
            # Click's own 1 is an answer of some verbs.
            sys.exit(INTERRUPTED)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(sorted(VERBS.items()))


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="modelplane")
def main() -> None:
    """A control plane for LLM inference across a fleet of GPU clusters."""
