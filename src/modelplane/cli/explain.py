"""`modelplane explain`: why each replica of a deployment is where it is, and why the missing ones are nowhere."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from modelplane.cli import options
from modelplane.cli.output import say, say_json
from modelplane.cli.reading import document
from modelplane.tables import fold, table

if TYPE_CHECKING:
    from modelplane.kube.client import Client
    from modelplane.plan.explanation import Explanation, Refusal, Seat
    from modelplane.plan.scene import Scene
    from modelplane.plan.stopped import Stopped

KINDS = ("modeldeployment", "modeldeployments", "md")


@click.command()
@click.argument("target", metavar="modeldeployment/NAME")
@click.option("-n", "--namespace", default="default", show_default=True, help="Namespace of the deployment.")
@options.snapshot
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@options.data_dir
@options.kubeconfig
def command(
    target: str, namespace: str, snapshot: Path | None, output: str, data_dir: Path, kubeconfig: Path | None
) -> None:
    """Say why each replica is where it is, and what each cluster that takes no more of them lacks.

    The smallest change that would help has the fewest steps, then the smaller kind of step: wait, undrain, tolerate a taint, label,
    create or stage the cache, free devices, add nodes, lower a count, drop a selector.
    """
    from modelplane.api import model_deployment
    from modelplane.errors import ModelplaneError
    from modelplane.plan.explanation import Explanation, explain
    from modelplane.plan.request import InvalidNodeSelector
    from modelplane.plan.stopped import stopped

    kind, slash, name = target.partition("/")
    if not slash or not name or kind.lower().partition(".")[0] not in KINDS:
        raise click.UsageError(
            f"{target} is no modeldeployment/NAME; deployments are what is placed, as in modeldeployment/{name or target}"
        )
    scene = saved(snapshot) if snapshot is not None else options.run(live(data_dir, kubeconfig))
    found: Explanation | Stopped
    try:
        deployment = _deployment(scene, namespace, name)
        fleet, lacks = scene.fleet(), scene.lacks(deployment)
        try:
            found = explain(fleet, scene.request(deployment), lacks, scene.taken)
        except InvalidNodeSelector:
            found = stopped(fleet, model_deployment.parse(deployment), lacks, scene.taken)
    except ModelplaneError as error:
        raise click.ClickException(str(error)) from error
    if output == "json":
        say_json(found.document(), indent=2)
    else:
        say(_text(found) if isinstance(found, Explanation) else _stopped(found))


def _deployment(scene: Scene, namespace: str, name: str) -> dict[str, object]:
    from modelplane.api.meta import Key
    from modelplane.api.model_deployment import KIND
    from modelplane.plan.edits import no_such

    found = scene.get(KIND, Key(namespace, name))
    if found is None:
        known = [Key.of(one) for one in scene.all(KIND)]
        elsewhere = [one.namespace for one in known if one.name == name]
        if elsewhere:
            also = f" (or {', '.join(elsewhere[1:])})" if elsewhere[1:] else ""
            raise click.ClickException(f"there is no ModelDeployment {namespace}/{name}; add -n {elsewhere[0]}{also}")
        raise click.ClickException(no_such("ModelDeployment", f"{namespace}/{name}", known))
    return found


async def live(data_dir: Path, kubeconfig: Path | None) -> Scene:
    """The scene of a live fleet."""
    async with options.control_client(data_dir, kubeconfig) as client:
        return await read(client)


async def read(client: Client) -> Scene:
    """Everything of a live fleet that placement looks at."""
    import asyncio

    from modelplane.cli.snapshot import now
    from modelplane.plan.scene import KINDS, Scene

    taken = now()
    lists = await asyncio.gather(*(client.list(kind) for kind in KINDS))
    return Scene((obj for found in lists for obj in found.items), taken)


def saved(path: Path) -> Scene:
    """The fleet of a snapshot."""
    from modelplane.errors import InvalidObject
    from modelplane.plan.saved import of_document

    try:
        return of_document(document(path, "what `modelplane snapshot FILE` wrote"))
    except InvalidObject as error:
        raise click.ClickException(f"{path}: {error}") from error


def _text(found: Explanation) -> str:
    plan, width = found.plan, options.width()
    parts = [
        f"ModelDeployment {found.deployment}: {plan.condition().reason}",
        fold(f"{plan.headline()}. {_of(found.asked)}", width),
    ]
    parts += [fold(f"note: {note}", width) for note in found.notes]
    parts.append(_seats(found.seats))
    leaving = [[one.name, one.cluster, str(one.reason), one.message] for one in plan.removed]
    parts.append(table(("LEAVES", "CLUSTER", "REASON", "WHY"), leaving, width))
    parts.append(refusals(found.refusals))
    parts += [fold(f"Overcommitted: {text}", width) for text in found.overcommitted]
    parts.append(smallest(found.nearest))
    return "\n\n".join(part for part in parts if part)


def _stopped(found: Stopped) -> str:
    """What is there, and every selector that does not compile."""
    from modelplane.plan.stopped import REASON

    width = options.width()
    there = len(found.seats)
    headline = (
        f"{there} of {found.wanted} replicas placed; nothing moves until every selector compiles. {_of(found.asked)}"
    )
    parts = [f"ModelDeployment {found.deployment}: {REASON}", fold(headline, width)]
    parts += [fold(f"note: {note}", width) for note in found.notes]
    parts += [f"{fault.whose} ({fault.path}):\n{textwrap.indent(fault.message, '  ')}" for fault in found.faults]
    parts.append(_seats(found.seats))
    parts += [fold(f"Overcommitted: {text}", width) for text in found.overcommitted]
    parts.append("Correct the selectors; `modelplane match EXPRESSION` tries them on the fleet's devices.")
    return "\n\n".join(part for part in parts if part)


def _of(asked: str) -> str:
    return f"Figures as of {asked or 'an unknown time'}."


def _seats(seats: Sequence[Seat]) -> str:
    rows = [
        [
            seat.replica,
            seat.cluster,
            ",".join(seat.pools),
            seat.state,
            "yes" if seat.ready else "no",
            "; ".join(text for text in (seat.why, seat.note) if text),
        ]
        for seat in seats
    ]
    return table(("REPLICA", "CLUSTER", "POOLS", "STATE", "READY", "WHY"), rows, options.width())


def refusals(found: Sequence[Refusal]) -> str:
    """A line for each cluster: whether it takes one more, what it lacks, and what would help."""
    from modelplane.plan.figures import brief

    rows = [
        [
            one.verdict.cluster,
            str(one.verdict.code),
            brief(one.figures),
            one.verdict.message or "-",
            ", then ".join(step.text for step in one.changes) or "-",
        ]
        for one in found
    ]
    return table(("CLUSTER", "ONE MORE", "FIGURES", "WHY", "SMALLEST CHANGE"), rows, options.width())


def smallest(nearest: Refusal | None) -> str:
    """The line that says what to do."""
    if nearest is None:
        return ""
    steps = ", then ".join(step.text for step in nearest.changes)
    return fold(f"Smallest change that lets {nearest.lets}: {steps} (on {nearest.verdict.cluster}).", options.width())
