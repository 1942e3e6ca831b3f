"""`modelplane match`: which devices a selector matches, which not, and which cannot be judged."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from modelplane.cli import options
from modelplane.cli.output import say, say_json
from modelplane.cli.reading import document, lines

if TYPE_CHECKING:
    from modelplane.api.meta import Object
    from modelplane.plan.matches import Answer, Specimen

FILE = click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)


@click.command()
@click.argument("expression", required=False)
@click.option("--cluster", "cluster_name", metavar="NAME", help="Only the devices of this InferenceCluster.")
@click.option("--class", "class_name", metavar="NAME", help="The devices of this InferenceClass.")
@click.option(
    "--devices",
    "devices_file",
    type=FILE,
    metavar="FILE",
    help="Devices of a JSON file: a name for each, with driver, attributes and capacity. Needs no control plane.",
)
@click.option(
    "--batch",
    type=FILE,
    metavar="FILE",
    help='Judge many: one {"expression": ...} a line (- for standard input), one JSON answer a line.',
)
@options.snapshot
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@options.data_dir
@options.kubeconfig
def command(
    expression: str | None,
    cluster_name: str | None,
    class_name: str | None,
    devices_file: Path | None,
    batch: Path | None,
    snapshot: Path | None,
    output: str,
    data_dir: Path,
    kubeconfig: Path | None,
) -> None:
    """Say of every device of the fleet whether EXPRESSION, a DRA device selector, matches it.

    \b
    modelplane match 'device.driver == "gpu.nvidia.com"'

    Exits with 1 when the expression does not compile, or a line of a batch is no question.
    """
    if (expression is None) == (batch is None):
        raise click.UsageError("give one EXPRESSION, or --batch FILE")
    if sum(source is not None for source in (cluster_name, class_name, devices_file)) > 1:
        raise click.UsageError("--cluster, --class and --devices are three places to look; give one")
    if devices_file is not None and snapshot is not None:
        raise click.UsageError("--devices and --snapshot are two places to look; give one")
    if batch is not None and output != "json":
        raise click.UsageError("--batch answers in JSON lines; add --output json")
    if devices_file is not None:
        specimens, where = _of_file(devices_file), f"in {devices_file}"
    else:
        where = f"in InferenceClass {class_name}"
        if class_name is None:
            where = f"on {cluster_name or 'any cluster'}: none is published yet; see `modelplane status`"
        if snapshot is not None:
            specimens = _of_snapshot(snapshot, cluster_name, class_name)
        else:
            specimens = options.run(_of_fleet(data_dir, kubeconfig, cluster_name, class_name))

    from modelplane.plan.matches import examine

    if batch is not None:
        _batch(batch, specimens)
        return
    assert expression is not None
    answer = examine(_characters(expression), specimens)
    if output == "json":
        say_json(answer.document())
    else:
        _table(answer, where)
    if answer.compile_error:
        sys.exit(1)


def _of_file(path: Path) -> list[Specimen]:
    from modelplane.errors import InvalidObject
    from modelplane.plan.matches import of_document

    try:
        return of_document(document(path, "devices by name, each with driver, attributes and capacity", strict=True))
    except InvalidObject as error:
        raise click.ClickException("\n".join(f"{path}: {line}" for line in str(error).splitlines())) from error


def _of_snapshot(path: Path, cluster_name: str | None, class_name: str | None) -> list[Specimen]:
    from modelplane.api import inference_class, inference_cluster
    from modelplane.api.meta import GVK, Key
    from modelplane.cli.explain import saved
    from modelplane.plan.edits import no_such
    from modelplane.plan.matches import of_class, of_clusters

    scene = saved(path)

    def named(kind: GVK, name: str) -> Object:
        found = scene.get(kind, Key("", name))
        if found is None:
            raise click.ClickException(f"{path}: {no_such(kind.kind, name, map(Key.of, scene.all(kind)))}")
        return found

    if class_name is not None:
        return of_class(inference_class.parse(named(inference_class.KIND, class_name)))
    kind = inference_cluster.KIND
    return of_clusters(
        map(inference_cluster.parse, scene.all(kind) if cluster_name is None else [named(kind, cluster_name)])
    )


async def _of_fleet(
    data_dir: Path, kubeconfig: Path | None, cluster_name: str | None, class_name: str | None
) -> list[Specimen]:
    from modelplane.api import inference_class, inference_cluster
    from modelplane.plan.matches import of_class, of_clusters

    async with options.control_client(data_dir, kubeconfig) as client:
        if class_name is not None:
            return of_class(inference_class.parse(await options.get(client, inference_class.KIND, class_name)))
        if cluster_name is not None:
            found: Sequence[Object] = [await options.get(client, inference_cluster.KIND, cluster_name)]
        else:
            found = (await client.list(inference_cluster.KIND)).items
        return of_clusters(map(inference_cluster.parse, found))


def _batch(path: Path, specimens: Sequence[Specimen]) -> None:
    """An answer a line, in the order of the lines; one that is no question is answered with what is wrong with it."""
    from modelplane.plan.matches import TOLD, examine

    bad: list[str] = []
    for number, line in enumerate(lines(path), 1):
        if not line.strip():
            continue
        try:
            text = _expression(line)
        except ValueError as error:
            bad.append(f"{path}:{number}")
            say_json({"error": f"{path}:{number}: {error}"})
        else:
            say_json(examine(text, specimens).document())
    if bad:
        shown = ", ".join(bad[:TOLD]) + (f" and {len(bad) - TOLD} more" if len(bad) > TOLD else "")
        raise click.ClickException(f"no question, and answered with an error: {shown}")


def _expression(line: bytes) -> str:
    """The expression of a line of a batch. Raises ValueError."""
    try:
        asked: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError('no JSON of the form {"expression": "..."}') from error
    text = asked.get("expression") if isinstance(asked, dict) else None
    if text is None:
        raise ValueError('no object of the form {"expression": "..."}')
    if not isinstance(text, str):
        raise ValueError("expression is no text")
    return _characters(text)


def _characters(text: str) -> str:
    """Half of a surrogate pair is no character; Go, and so Kubernetes, reads it as the replacement character."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _table(answer: Answer, where: str) -> None:
    if answer.compile_error:
        say(f"does not compile: {answer.compile_error}", err=True)
        return
    if not answer.results:
        say(f"no devices {where}", err=True)
        return
    width = max(map(len, answer.results))
    shown = {True: "matches", False: "does not match"}
    for name, result in answer.results.items():
        say(f"{name:<{width}}  {result if isinstance(result, str) else shown[result]}")
    counts = [sum(1 for result in answer.results.values() if result is wanted) for wanted in (True, False)]
    errors = len(answer.results) - sum(counts)
    say(f"{counts[0]} match, {counts[1]} do not, {errors} cannot be judged")
