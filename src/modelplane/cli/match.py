"""`modelplane match`: which devices a selector matches, which not, and which cannot be judged."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from modelplane.cli import options

if TYPE_CHECKING:
    from modelplane.api.meta import Object
    from modelplane.plan.matches import Answer, Specimen


@click.command()
@click.argument("expression", required=False)
@click.option("--cluster", "cluster_name", metavar="NAME", help="Only the devices of this InferenceCluster.")
@click.option("--class", "class_name", metavar="NAME", help="The devices of this InferenceClass.")
@click.option(
    "--devices",
    "devices_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Devices of a JSON file: a name for each, with driver, attributes and capacity. Needs no control plane.",
)
@click.option(
    "--batch",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
    help='Judge many: one {"expression": ...} a line (- for standard input), one JSON answer a line.',
)
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@options.data_dir
@options.kubeconfig
def command(
    expression: str | None,
    cluster_name: str | None,
    class_name: str | None,
    devices_file: Path | None,
    batch: Path | None,
    output: str,
    data_dir: Path,
    kubeconfig: Path | None,
) -> None:
    """Say of every device of the fleet whether EXPRESSION, a DRA device selector, matches it.

    \b
    modelplane match 'device.driver == "gpu.nvidia.com"'

    Exits with 1 when the expression does not compile.
    """
    if (expression is None) == (batch is None):
        raise click.UsageError("give one EXPRESSION, or --batch FILE")
    if sum(source is not None for source in (cluster_name, class_name, devices_file)) > 1:
        raise click.UsageError("--cluster, --class and --devices are three places to look; give one")
    if batch is not None and output != "json":
        raise click.UsageError("--batch answers in JSON lines; add --output json")
    if devices_file is not None:
        specimens, where = _of_file(devices_file), f"in {devices_file}"
    else:
        where = f"in InferenceClass {class_name}"
        if class_name is None:
            where = f"on {cluster_name or 'any cluster'}: none is published yet; see `modelplane status`"
        specimens = options.run(_of_fleet(data_dir, kubeconfig, cluster_name, class_name))

    from modelplane.plan.matches import examine

    if batch is not None:
        for text in _expressions(batch):
            click.echo(json.dumps(examine(text, specimens).document(), ensure_ascii=False))
        return
    assert expression is not None
    answer = examine(expression, specimens)
    if output == "json":
        click.echo(json.dumps(answer.document(), ensure_ascii=False))
    else:
        _table(answer, where)
    if answer.compile_error:
        sys.exit(1)


def _of_file(path: Path) -> list[Specimen]:
    from modelplane.errors import InvalidObject
    from modelplane.plan.matches import of_document

    try:
        return of_document(options.document(path, "devices by name, each with driver, attributes and capacity"))
    except InvalidObject as error:
        raise click.ClickException(f"{path}: {error}") from error


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


def _expressions(path: Path) -> Iterator[str]:
    with click.open_file(str(path), encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                yield _expression(line, f"{path}:{number}")


def _expression(line: str, where: str) -> str:
    try:
        asked: Any = json.loads(line)
        text = asked["expression"]
    except (ValueError, TypeError, LookupError) as error:
        raise click.ClickException(f'{where}: not an object of the form {{"expression": "..."}}') from error
    if not isinstance(text, str):
        raise click.ClickException(f"{where}: expression is no text")
    # Half of a surrogate pair is no character; Go, and so Kubernetes, reads it as the replacement character.
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _table(answer: Answer, where: str) -> None:
    if answer.compile_error:
        click.echo(f"does not compile: {answer.compile_error}", err=True)
        return
    if not answer.results:
        click.echo(f"no devices {where}", err=True)
        return
    width = max(map(len, answer.results))
    shown = {True: "matches", False: "does not match"}
    for name, result in answer.results.items():
        click.echo(f"{name:<{width}}  {result if isinstance(result, str) else shown[result]}")
    counts = [sum(1 for result in answer.results.values() if result is wanted) for wanted in (True, False)]
    errors = len(answer.results) - sum(counts)
    click.echo(f"{counts[0]} match, {counts[1]} do not, {errors} cannot be judged")
