"""Options that several verbs share, and how a verb reaches the control plane."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import click
from click.core import ParameterSource

from modelplane import processes
from modelplane.errors import ModelplaneError, NotFound, Unreachable
from modelplane.local.layout import Layout, default_data_dir

if TYPE_CHECKING:
    from modelplane.api.meta import GVK, Object
    from modelplane.kube.client import Client

T = TypeVar("T")
NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
"""What an object, a namespace or a pool may be called, more or less."""
Decorator = Callable[[Callable[..., None]], Callable[..., None]]

data_dir: Decorator = click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    default=default_data_dir,
    show_default="the user's state directory",
    envvar="MODELPLANE_DATA_DIR",
    help="Where the local fleet keeps its state.",
)
kubeconfig: Decorator = click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Reach this control plane instead of the local fleet's. Where none runs and --data-dir is not given, the default is"
    " $KUBECONFIG.",
)


snapshot: Decorator = click.option(
    "--snapshot",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
    metavar="FILE",
    help="Ask a fleet that `modelplane snapshot` saved instead of a live one (- for standard input).",
)


kubernetes: Decorator = click.option(
    "--kubernetes",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    metavar="DIR",
    help="Run on the real Kubernetes whose binaries are in DIR (`make kubernetes`), in a network namespace of its own.",
)


def enter_network(layout: Layout | None = None) -> None:
    """Go on in a network namespace of its own, by starting this very command again there: in that of what a crashed supervisor
    left running in a data directory, else in a new one."""
    from modelplane.local import network

    if not network.inside():
        again = [sys.executable, "-m", "modelplane", *sys.argv[1:]]
        survivors = layout.running().values() if layout is not None else ()
        survivor = network.shared_by_most(record.pid for record in survivors)
        try:
            if survivor is None:
                network.enter(again)
            else:
                network.join(survivor, again)
        except ModelplaneError as error:
            raise click.ClickException(str(error)) from error


def control_client(data_dir: Path, kubeconfig: Path | None) -> Client:
    """A client of the control plane that is meant: of ``kubeconfig`` when given, of the data directory when that is given or a
    fleet runs in it, else of $KUBECONFIG."""
    from modelplane.kube.client import Client
    from modelplane.kube.kubeconfig import Kubeconfig

    layout = Layout(data_dir)
    listed = os.environ.get("KUBECONFIG")
    if listed and kubeconfig is None and not _given("data_dir") and not layout.running():
        return Client(Kubeconfig.listed(listed), user_agent="modelplane-cli")
    path = kubeconfig or layout.kubeconfig
    if kubeconfig is None:
        _inside(layout)
    if not path.exists():
        raise click.ClickException(
            f"{path} does not exist; start a local fleet with `modelplane up`, or give --kubeconfig or $KUBECONFIG"
        )
    return Client(Kubeconfig.load(path), user_agent="modelplane-cli")


def _inside(layout: Layout) -> None:
    """End the command outside the network that the fleet of a directory runs in, with how it is reached."""
    from modelplane.local import network, origin

    if origin.of(layout) in (None, origin.EMBEDDED) or network.inside() or processes.recall(layout.supervisor) is None:
        return
    root = shlex.quote(str(layout.root))
    raise click.ClickException(
        f"this fleet runs on real Kubernetes in a network of its own, and is reached from `modelplane shell` alone: run"
        f" `modelplane shell --data-dir {root} -- {shlex.join(['modelplane', *sys.argv[1:]])}`"
    )


def _given(parameter: str) -> bool:
    """Whether the caller chose a parameter of the verb of now, by an option or by its variable."""
    context = click.get_current_context(silent=True)
    source = context.get_parameter_source(parameter) if context is not None else None
    return source in (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)


async def get(client: Client, kind: GVK, name: str, namespace: str = "") -> Object:
    """The object of that name; where there is none, the command ends with the names there are."""
    from modelplane.api.meta import Key
    from modelplane.plan.edits import no_such

    try:
        if not all(NAME.fullmatch(word) for word in (name, *([namespace] if namespace else ()))):
            # It goes into a path, and there it would mean something else.
            raise NotFound(f"{name} is no name", reason="NotFound")
        return await client.get(kind, name, namespace or None)
    except NotFound as error:
        known = [Key.of(one) for one in (await client.list(kind)).items]
        raise click.ClickException(
            no_such(kind.kind, str(Key(namespace, name)) if namespace else name, known)
        ) from error


def width() -> int:
    """Columns of the terminal; 0 where the output goes to a file or another program, which gets whole lines."""
    return shutil.get_terminal_size().columns if sys.stdout is not None and sys.stdout.isatty() else 0


def run(work: Coroutine[object, object, T]) -> T:
    """Run a verb's work; what is raised on purpose becomes one line and exit status 1."""
    try:
        try:
            return asyncio.run(work)
        except BaseExceptionGroup as group:
            # Work that several tasks do fails as a group; the first of them says why.
            raise _first(group) from group
    except Unreachable as error:
        raise click.ClickException(
            f"{error}. If this is the local fleet, is it up? `modelplane up` starts it, and one on real Kubernetes is"
            " reached from `modelplane shell` alone"
        ) from error
    except NotFound as error:
        # A server that knows the kind says NotFound as its reason; one that does not has no such path.
        hint = (
            ""
            if error.reason
            else "; is this the kubeconfig of a control plane? a cluster of its fleet has no Modelplane API"
        )
        raise click.ClickException(f"{error}{hint}") from error
    except (ModelplaneError, OSError) as error:
        raise click.ClickException(str(error)) from error


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
