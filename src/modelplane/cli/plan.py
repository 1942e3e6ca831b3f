"""`modelplane plan`: what a change would do to the fleet, without doing it."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from modelplane.cli import options
from modelplane.cli.output import say, say_json

if TYPE_CHECKING:
    from modelplane.api.meta import Key
    from modelplane.plan.edits import Edits
    from modelplane.plan.scene import Scene
    from modelplane.plan.whatif import Fate, Rehearsal

ADDED: Final = ("InferenceClass", "InferenceCluster")
"""What --add takes."""
DIGITS: Final = 18
"""Of a number that surely fits 64 bits."""
T = TypeVar("T", bound=Hashable)

MANY: Final = ("-f", "--filename", "--drain", "--lose", "--add", "--scale", "--pool")
"""Options that take every word up to the next option."""


class _Unreadable(click.UsageError):
    """A question that cannot be read; 2, the usual status of those, is an answer here."""

    exit_code = 1


class _Command(click.Command):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """``--drain a b`` is ``--drain a --drain b``: no other word stands between the options of this verb."""
        spread: list[str] = []
        current, filled = "", False
        for word in args:
            if word.startswith("-") and word != "-":
                current, filled = (word, False) if word in MANY else ("", False)
            elif current:
                if filled:
                    spread.append(current)
                filled = True
            spread.append(word)
        try:
            return super().parse_args(ctx, spread)
        except click.UsageError as error:
            raise _Unreadable(error.format_message(), error.ctx or ctx) from error

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            raise _Unreadable(error.format_message(), error.ctx or ctx) from error


FILE: Final = click.Path(exists=True, allow_dash=True, path_type=Path)


@click.command(cls=_Command)
@click.option(
    "-f", "--filename", "manifests", multiple=True, type=FILE, help="Manifests to apply: files, folders or -."
)
@click.option("--drain", multiple=True, metavar="CLUSTER...", help="Drain these clusters.")
@click.option("--lose", multiple=True, metavar="CLUSTER...", help="Lose these clusters with all that is on them.")
@click.option(
    "--add", multiple=True, type=FILE, metavar="FILE...", help="Add the clusters and classes of these manifests."
)
@click.option("--scale", multiple=True, metavar="NS/NAME=N", help="Give a deployment so many replicas.")
@click.option("--pool", "pools", multiple=True, metavar="CLUSTER/POOL=NODES", help="Give a pool so many nodes.")
@options.snapshot
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@options.data_dir
@options.kubeconfig
def command(
    manifests: tuple[Path, ...],
    drain: tuple[str, ...],
    lose: tuple[str, ...],
    add: tuple[Path, ...],
    scale: tuple[str, ...],
    pools: tuple[str, ...],
    snapshot: Path | None,
    output: str,
    data_dir: Path,
    kubeconfig: Path | None,
) -> None:
    """Rehearse a change: what would be placed, moved and refused. Nothing is changed.

    The options may be combined; without any, it says what the fleet as it is comes to. Exits with 0 when everything fits, with
    2 when something does not, and with 1 when the question cannot be read or answered.
    """
    from modelplane.cli import manifests as files
    from modelplane.cli.explain import live, saved
    from modelplane.errors import ModelplaneError
    from modelplane.plan.edits import Edits, edited
    from modelplane.plan.whatif import rehearse

    applied = (*files.read(add, ADDED), *files.read(manifests))
    if (add or manifests) and not applied:
        # A template that came out empty is no change that fits.
        raise click.ClickException(f"no manifest in {', '.join(map(str, (*add, *manifests)))}; nothing to rehearse")
    edits = Edits(
        manifests=applied,
        drain=_clusters(drain, "--drain"),
        lose=_clusters(lose, "--lose"),
        scale=_once(map(_scale, scale), "--scale"),
        pools=_once(map(_pool, pools), "--pool"),
    )
    now = saved(snapshot) if snapshot is not None else options.run(live(data_dir, kubeconfig))
    try:
        then = edited(now, edits)
        _judge(now, then.scene, edits)
        found = rehearse(now, then.scene, then.notes, then.stranded)
    except ModelplaneError as error:
        raise click.ClickException(str(error)) from error
    if output == "json":
        say_json({"asOf": now.taken or None, **found.document()}, indent=2)
    else:
        say(_text(found, now.taken))
    if not found.fits:
        sys.exit(2)


def _clusters(names: Sequence[str], option: str) -> Sequence[str]:
    for name in names:
        _check(name, "cluster", option)
    return names


def _scale(text: str) -> tuple[Key, int]:
    from modelplane.api.meta import Key

    (namespace, name), number = _number(text, "--scale", "NS/NAME=N")
    _check(namespace, "namespace", "--scale")
    _check(name, "deployment", "--scale")
    return Key(namespace, name), number


def _pool(text: str) -> tuple[tuple[str, str], int]:
    (cluster, pool), number = _number(text, "--pool", "CLUSTER/POOL=NODES")
    _check(cluster, "cluster", "--pool")
    _check(pool, "pool", "--pool")
    return (cluster, pool), number


def _number(text: str, option: str, form: str) -> tuple[tuple[str, str], int]:
    target, equals, number = text.rpartition("=")
    first, slash, second = target.partition("/")
    if not (equals and slash and first and second and number.isascii() and number.isdigit()):
        raise click.BadParameter(f"{text!r} is no {form}, where the number is 0 or more", param_hint=option)
    if len(number) > DIGITS:
        raise click.BadParameter(f"{number[:DIGITS]}... does not fit 64 bits", param_hint=option)
    return (first, second), int(number)


def _check(name: str, what: str, option: str) -> None:
    """A name that nothing can have is mistyped, and not merely absent."""
    if not options.NAME.fullmatch(name) or (what == "namespace" and "." in name):
        dot = "" if what == "namespace" else ", '.'"
        raise click.BadParameter(
            f"{name!r} is no name of a {what}: lower case letters, digits{dot} and '-', with a letter or digit at both ends",
            param_hint=option,
        )


def _once(given: Iterable[tuple[T, int]], option: str) -> dict[T, int]:
    """Numbers by target. Two for one target are two questions."""
    found: dict[T, int] = {}
    for target, number in given:
        if target in found:
            name = "/".join(target) if isinstance(target, tuple) else str(target)
            raise click.BadParameter(f"{name} is given twice, as {found[target]} and as {number}", param_hint=option)
        found[target] = number
    return found


def _judge(now: Scene, then: Scene, edits: Edits) -> None:
    """What an API server would say to the new numbers ends the command; faults that were stored before are no news."""
    from modelplane.api import inference_cluster, model_deployment
    from modelplane.api.meta import Key

    changed = {f"--scale {key}={number}": (model_deployment.KIND, key) for key, number in edits.scale.items()}
    changed |= {
        f"--pool {cluster}/{pool}={number}": (inference_cluster.KIND, Key("", cluster))
        for (cluster, pool), number in edits.pools.items()
    }
    if not changed:
        return
    from modelplane.server.offline import Judge, Severity

    judge = Judge()
    for option, (kind, key) in changed.items():
        before, after = (
            [one.message for one in judge.judge(scene.get(kind, key) or {}) if one.severity is Severity.ERROR]
            for scene in (now, then)
        )
        fresh = [message for message in after if message not in before]
        if fresh:
            raise click.ClickException(f"{option} would be refused: {'; '.join(fresh)}")


def _text(found: Rehearsal, taken: str) -> str:
    from modelplane.tables import fold, table

    width = options.width()
    parts = ["\n".join(fold(f"note: {note}", width) for note in found.notes)]
    rows: list[Sequence[str]] = []
    for move in found.moves:
        replica = f"{move.replaces} -> {move.replica}" if move.replaces else move.replica
        rows.append((str(move.kind), move.deployment, replica, move.source or "-", move.target or "-", move.why or "-"))
    parts.append(table(("CHANGE", "DEPLOYMENT", "REPLICA", "FROM", "TO", "WHY"), rows, width) or "Nothing moves.")
    changed = [fate for fate in found.fates if fate.before != fate.after or not fate.fits]
    counts = [(fate.deployment, str(fate.wanted), str(fate.before), str(fate.after), _state(fate)) for fate in changed]
    parts.append(table(("DEPLOYMENT", "WANTED", "NOW", "THEN", "FITS"), counts, width))
    for fate in found.fates:
        if not fate.fits:
            parts.append(_refused(fate))
    parts.append("\n".join(fold(f"{fate.deployment}: {note}", width) for fate in found.fates for note in fate.notes))
    parts += [fold(f"Overcommitted: {text}", width) for text in found.overcommitted]
    verdict = "Everything fits." if found.fits else "Not everything fits."
    parts.append(f"{verdict} Figures as of {taken or 'an unknown time'}; nothing was changed.")
    return "\n\n".join(part for part in parts if part)


def _state(fate: Fate) -> str:
    if not fate.fits:
        return "no"
    return f"yes, {fate.waiting} waiting for nodes" if fate.waiting else "yes"


def _refused(fate: Fate) -> str:
    from modelplane.cli.explain import refusals, smallest
    from modelplane.tables import fold

    lines = [
        fold(f"{fate.deployment} does not fit: {fate.headline}", options.width()),
        refusals(fate.refusals),
        smallest(fate.nearest),
    ]
    return "\n".join(line for line in lines if line)
