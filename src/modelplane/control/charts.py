"""Helm releases that a stack wants: the port for installing them, the stand-in of simulated clusters, and the command for a person.

A simulated cluster has the controllers of the known charts built in, so there is nothing to install. The stand-in makes what a user
of Helm would look for, the namespace and the release Secret in Helm's own encoding, and says in a note that this is all.
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

import orjson

from modelplane.api.meta import GVK, Object
from modelplane.compose.contract import Chart
from modelplane.control.ownership import Ref
from modelplane.errors import AlreadyExists, NotFound
from modelplane.kube import Client

RELEASE: Final = GVK("helm.sh", "v1", "Release")
"""How a chart stands in an inventory. No server has this kind: the release is where Helm keeps it, in Secrets."""
SECRET: Final = GVK("", "v1", "Secret")
DEPLOYED: Final = "deployed"
DIGEST: Final = "modelplane.ai/chart-digest"
"""Label of a release Secret: what was asked for, so that a change of version or values is seen."""


def release_ref(chart: Chart) -> Ref:
    return Ref(chart.target or "", RELEASE, chart.namespace, chart.release)


class ChartInstaller(Protocol):
    """Installs charts on a cluster. ``labels`` are put on the release Secret, by which it is found again."""

    async def prepare(self, client: Client, namespace: str) -> None:
        """Make the namespace of charts, which objects beside them may want too. One that is there is fine."""
        ...

    async def install(self, client: Client, chart: Chart, labels: Mapping[str, str], digest: str) -> bool:
        """Install or upgrade, without waiting for workloads; again when ``digest`` (of the wish) is another than last time.
        Whether there was anything to do."""
        ...

    def note(self, charts: Sequence[Chart]) -> str:
        """What a person should know about these installations."""
        ...

    async def uninstall(self, client: Client, namespace: str, release: str, labels: Mapping[str, str]) -> None:
        """Remove the release if its Secrets have these labels; one that is not there is fine."""
        ...


class SimulatedCharts:
    """The stand-in. ``clock`` gives RFC 3339."""

    def __init__(self, clock: Callable[[], str]) -> None:
        self._clock = clock

    async def prepare(self, client: Client, namespace: str) -> None:
        with contextlib.suppress(AlreadyExists):
            await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})

    async def install(self, client: Client, chart: Chart, labels: Mapping[str, str], digest: str) -> bool:
        try:
            await client.create(self._secret(chart, 1, labels, digest))
        except AlreadyExists:
            return await self._upgrade(client, chart, labels, digest)
        return True

    def note(self, charts: Sequence[Chart]) -> str:
        names = ", ".join(f"{chart.name} {chart.version}" for chart in charts)
        where = sorted({chart.target or "the control cluster" for chart in charts})
        return (
            f"recorded as releases on {', '.join(where)} and nothing more, since a simulated cluster has these controllers built "
            f"in and their versions and values have no meaning there: {names}"
        )

    async def _upgrade(self, client: Client, chart: Chart, labels: Mapping[str, str], digest: str) -> bool:
        """A new revision beside the old ones, unless the newest is what is wanted."""
        revisions = await self._revisions(client, chart.namespace, chart.release)
        newest = max(revisions, key=revision_of, default=None)
        if newest is not None and newest["metadata"]["labels"].get(DIGEST) == digest:
            return False
        revision = 1 + (revision_of(newest) if newest is not None else 0)
        await client.create(self._secret(chart, revision, labels, digest))
        for secret in revisions:
            if secret["metadata"]["labels"].get("status") == DEPLOYED:
                superseded = {"metadata": {"labels": {"status": "superseded"}}}
                await client.patch(SECRET, secret["metadata"]["name"], chart.namespace, superseded)
        return True

    async def uninstall(self, client: Client, namespace: str, release: str, labels: Mapping[str, str]) -> None:
        for secret in await self._revisions(client, namespace, release, labels):
            try:
                await client.delete(SECRET, secret["metadata"]["name"], namespace, uid=secret["metadata"]["uid"])
            except NotFound:
                continue

    async def _revisions(
        self, client: Client, namespace: str, release: str, labels: Mapping[str, str] | None = None
    ) -> list[Object]:
        found = await client.list(SECRET, namespace, {"owner": "helm", "name": release, **(labels or {})})
        return list(found.items)

    def _secret(self, chart: Chart, revision: int, labels: Mapping[str, str], digest: str) -> Object:
        helm = {"name": chart.release, "owner": "helm", "status": DEPLOYED, "version": str(revision)}
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "helm.sh/release.v1",
            "metadata": {
                "name": f"sh.helm.release.v1.{chart.release}.v{revision}",
                "namespace": chart.namespace,
                "labels": {**helm, **labels, DIGEST: digest},
            },
            "data": {"release": encode(release_document(chart, revision, self._clock()))},
        }


def revisions_of(release: str) -> dict[str, str]:
    """The labels by which Helm finds the revisions of a release, whoever installed it."""
    return {"owner": "helm", "name": release}


def release_of(secret: Object, cluster: str | None) -> Ref | None:
    """The release that a Secret is a revision of; None for a Secret that is none."""
    metadata = secret["metadata"]
    labels = metadata.get("labels") or {}
    if secret.get("kind") != SECRET.kind or labels.get("owner") != "helm" or not labels.get("name"):
        return None
    return Ref(cluster or "", RELEASE, metadata.get("namespace") or "", labels["name"])


def command(chart: Chart) -> str:
    """What a person runs to install the chart as it is wanted, or to bring an older one up to it."""
    source = (
        f"{chart.repository}/{chart.name}"
        if chart.repository.startswith("oci://")
        else f"{chart.name} --repo {chart.repository}"
    )
    values = [
        f"--set-json {shlex.quote(f'{name}={orjson.dumps(value).decode()}')}" for name, value in chart.values.items()
    ]
    return " ".join(
        [
            f"helm upgrade --install {chart.release} {source} --version {chart.version}",
            f"--namespace {chart.namespace} --create-namespace",
            *values,
        ]
    )


def revision_of(secret: Object) -> int:
    """The revision that a release Secret holds."""
    return int(secret["metadata"]["labels"].get("version") or 0)


def release_document(chart: Chart, revision: int, now: str) -> dict[str, Any]:
    """What Helm would store about a release, so that `helm list`, `status`, `get values` and `history` read it."""
    return {
        "name": chart.release,
        "namespace": chart.namespace,
        "version": revision,
        "info": {
            "first_deployed": now,
            "last_deployed": now,
            "deleted": "",
            "description": "Recorded for a simulated cluster, which has this controller built in",
            "status": DEPLOYED,
        },
        "chart": {
            "metadata": {
                "name": chart.name,
                "version": chart.version.removeprefix("v") if chart.version[1:2].isdigit() else chart.version,
                "appVersion": chart.version,
                "apiVersion": "v2",
                "home": chart.repository,
            },
            "lock": None,
            "templates": [],
            "values": {},
            "schema": None,
            "files": [],
        },
        "config": dict(chart.values),
        "manifest": "",
    }


def encode(document: Mapping[str, Any]) -> str:
    """Helm's encoding inside a Secret: JSON, gzip, base64, and the Secret's own base64 around it."""
    packed = gzip.compress(orjson.dumps(document), mtime=0)
    return base64.b64encode(base64.b64encode(packed)).decode("ascii")


def decode(data: str) -> dict[str, Any]:
    document: dict[str, Any] = orjson.loads(gzip.decompress(base64.b64decode(base64.b64decode(data))))
    return document
