"""What one pass wants to exist, ready to be written: every child of a composition with its place and its owner's marks."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
import orjson

from modelplane.api.meta import GVK, Object
from modelplane.compose.contract import Chart, Child, ConditionTrue, Ready
from modelplane.control.charts import RELEASE, release_ref
from modelplane.control.inventory import Entry
from modelplane.control.ownership import Owner, Ref, marked
from modelplane.control.projection import part

NAMESPACE: Final = GVK("", "v1", "Namespace")
FIRST: Final = frozenset((NAMESPACE, GVK("apiextensions.k8s.io", "v1", "CustomResourceDefinition")))
"""Kinds that others need before they can be created."""


class Want(msgspec.Struct, frozen=True, kw_only=True):
    """One wanted object, or a chart."""

    key: str
    ref: Ref
    manifest: Object
    ready: Ready
    retain: bool = False
    shared: bool = False
    immutable: tuple[str, ...] = ()
    chart: Chart | None = None

    @property
    def entry(self) -> Entry:
        return Entry(self.key, self.ref, "", self.retain, self.shared)

    @property
    def digest(self) -> str:
        return digest(self.manifest)

    def must_replace(self, observed: Object) -> str | None:
        """The immutable field that the wanted object would change, if any."""
        for path in self.immutable:
            wanted = part(self.manifest, path)
            if wanted is not None and not covers(part(observed, path), wanted):
                return path
        return None


def wants(children: Iterable[Child | Chart], owner: Owner) -> list[Want]:
    """Duplicate keys or places are a composer's bug and raise ValueError."""
    result = [_chart(child, owner) if isinstance(child, Chart) else _object(child, owner) for child in children]
    _unique("key", [want.key for want in result])
    _unique("object", [str(want.ref) for want in result])
    return result


def _object(child: Child, owner: Owner) -> Want:
    manifest = marked(
        child.manifest, owner, child.key, remote=child.target is not None, shared=child.shared, retain=child.retain
    )
    return Want(
        key=child.key,
        ref=Ref.of(manifest, child.target),
        manifest=manifest,
        ready=child.ready,
        retain=child.retain,
        shared=child.shared,
        immutable=child.immutable,
    )


def _chart(chart: Chart, owner: Owner) -> Want:
    ref = release_ref(chart)
    # The manifest stands for the chart in comparisons and carries the owner's labels; it is never applied as it is.
    body: Object = {
        "apiVersion": RELEASE.api_version,
        "kind": RELEASE.kind,
        "metadata": {"name": ref.name, "namespace": ref.namespace},
        "chart": {"repository": chart.repository, "name": chart.name, "version": chart.version},
        "values": dict(chart.values),
    }
    manifest = marked(body, owner, chart.key, remote=True, shared=False, retain=False)
    return Want(key=chart.key, ref=ref, manifest=manifest, ready=ConditionTrue("Deployed"), chart=chart)


def _unique(what: str, names: Sequence[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"two children share the {what} {', '.join(twice)}; this is a bug of the composer")


def digest(value: object) -> str:
    """A short name for a JSON value, independent of the order of keys."""
    return hashlib.blake2b(orjson.dumps(value, option=orjson.OPT_SORT_KEYS), digest_size=16).hexdigest()


def covers(observed: object, wanted: object) -> bool:
    """Whether an observed value has all that is wanted; servers add defaults around it. Lists have to match entry by entry."""
    if isinstance(wanted, dict):
        return isinstance(observed, dict) and all(covers(observed.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list | tuple):
        if not isinstance(observed, list | tuple) or len(observed) != len(wanted):
            return False
        return all(covers(have, want) for have, want in zip(observed, wanted, strict=True))
    return observed == wanted
