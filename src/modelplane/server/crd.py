"""From a CustomResourceDefinition to the kinds that it serves, and the status that says so.

Defaults and rules of the definition itself are part of its built-in schema (``builtin/crds.py``). Schemas of custom
kinds are kept compressed until something needs them: a cluster carries hundreds that nobody ever writes to.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from modelplane.api.meta import GVK, Object
from modelplane.server.builtin import object_meta
from modelplane.server.columns import PathPrinter
from modelplane.server.resource import ALL_VERBS, SCALE, STATUS_VERBS, Printer, ResourceType, ScalePaths, Subresource
from modelplane.server.schema import Schema
from modelplane.server.schema.node import Compiler
from modelplane.server.schema.rules import RuleEngine, Rules
from modelplane.server.schema.scales import scale_check

NAMES_ACCEPTED: Final = "NamesAccepted"
ESTABLISHED: Final = "Established"
_encode = msgspec.json.encode
_decode = msgspec.json.Decoder(Object).decode
_ANYTHING: Final[Object] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def resource_types(crd: Object, engine: RuleEngine | None = None) -> tuple[ResourceType, ...]:
    """The kinds that a definition serves, one per served version. ``engine`` runs its CEL rules."""
    spec = crd["spec"]
    leaving = bool((crd.get("metadata") or {}).get("deletionTimestamp"))
    served = [version for version in spec["versions"] if version.get("served")]
    return tuple(_resource_type(spec, version, engine, leaving) for version in served)


def _resource_type(spec: Object, version: Object, engine: RuleEngine | None, leaving: bool) -> ResourceType:
    names = spec["names"]
    gvk = GVK(spec["group"], version["name"], names["kind"])
    below = version.get("subresources") or {}
    packed = zlib.compress(_encode((version.get("schema") or {}).get("openAPIV3Schema") or _ANYTHING))
    columns = version.get("additionalPrinterColumns") or ()
    subresources = {"status": Subresource(gvk, STATUS_VERBS)} if "status" in below else {}
    scale = below.get("scale")
    if scale is not None:
        subresources["scale"] = Subresource(SCALE, STATUS_VERBS)

    def source() -> Object:
        return _decode(zlib.decompress(packed))

    deprecation = ""
    if version.get("deprecated"):
        deprecation = version.get("deprecationWarning") or f"{gvk.api_version} {gvk.kind} is deprecated"
    return ResourceType(
        gvk=gvk,
        plural=names["plural"],
        singular=names.get("singular") or gvk.kind.lower(),
        namespaced=spec.get("scope") == "Namespaced",
        load_schema=_schema_loader(
            source, engine, "status" in subresources, _scale(scale) if scale is not None else None
        ),
        load_printer=_printer_loader(columns),
        load_source=source,
        list_kind=names.get("listKind") or f"{gvk.kind}List",
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        verbs=ALL_VERBS,
        subresources=subresources,
        scale=_scale(scale) if scale is not None else None,
        selectable_fields=tuple(field["jsonPath"].lstrip(".") for field in version.get("selectableFields") or ()),
        custom=True,
        storage_version=bool(version.get("storage")),
        leaving=leaving,
        deprecation=deprecation,
    )


def _scale(scale: Object) -> ScalePaths:
    return ScalePaths(scale["specReplicasPath"], scale["statusReplicasPath"], scale.get("labelSelectorPath") or "")


def _schema_loader(
    source: Callable[[], Object], engine: RuleEngine | None, status: bool, scale: ScalePaths | None
) -> Callable[[], Schema]:
    def load() -> Schema:
        node = Compiler().compile(source())
        rules = Rules(node, engine) if engine is not None else None
        counts = scale_check(scale.spec, scale.status, scale.selector) if scale is not None else None
        return Schema(node, object_meta(), rules=rules, status_subresource=status, scale=counts)

    return load


def _printer_loader(columns: Iterable[Object]) -> Callable[[], Printer]:
    chosen = tuple(columns)
    return lambda: PathPrinter(chosen)


def established(crd: Object, taken: Iterable[Object], time: str) -> Object:
    """The ``status`` of a definition: accepted names, conditions, stored versions.

    ``taken`` are the ``status.acceptedNames`` of other definitions of its group. A name that one of them has is not
    accepted, and a definition without accepted names is not served.
    """
    spec, before = crd["spec"], crd.get("status") or {}
    names = spec["names"]
    reason, message = _clash(names, taken)
    known = {condition["type"]: condition for condition in before.get("conditions") or ()}
    if reason:
        accepted = {NAMES_ACCEPTED: ("False", reason, message)}
        if (known.get(ESTABLISHED) or {}).get("status") != "True":
            accepted[ESTABLISHED] = ("False", "NotAccepted", "not all names are accepted")
    else:
        accepted = {
            NAMES_ACCEPTED: ("True", "NoConflicts", "no conflicts found"),
            ESTABLISHED: ("True", "InitialNamesAccepted", "the initial names have been accepted"),
        }
    for type_, told in accepted.items():
        known[type_] = _condition(type_, told, known.get(type_), time)
    stored = list(before.get("storedVersions") or ())
    stored += [v["name"] for v in spec["versions"] if v.get("storage") and v["name"] not in stored]
    kept = before.get("acceptedNames") or {}
    return {
        **before,
        "acceptedNames": kept if reason else dict(names),
        "conditions": list(known.values()),
        "storedVersions": stored,
    }


def is_established(crd: Object) -> bool:
    """Whether its kinds are served."""
    conditions = (crd.get("status") or {}).get("conditions") or ()
    return any(c.get("type") == ESTABLISHED and c.get("status") == "True" for c in conditions)


def _condition(type_: str, told: tuple[str, str, str], before: Object | None, time: str) -> Object:
    status, reason, message = told
    since = before["lastTransitionTime"] if before and before.get("status") == status else time
    return {"type": type_, "status": status, "lastTransitionTime": since, "reason": reason, "message": message}


def _clash(names: Object, taken: Iterable[Object]) -> tuple[str, str]:
    """Reason and message of the first name that somebody else has; empty without one."""
    others = list(taken)
    words = {word for other in others for word in _resource_names(other)}
    kinds = {str(other.get(field) or "") for other in others for field in ("kind", "listKind")}
    checks: Mapping[str, tuple[Iterable[str], set[str]]] = {
        "PluralConflict": ([names.get("plural", "")], words),
        "SingularConflict": ([names.get("singular", "")], words),
        "ShortNamesConflict": (names.get("shortNames") or (), words),
        "KindConflict": ([names.get("kind", "")], kinds),
        "ListKindConflict": ([names.get("listKind", "")], kinds),
    }
    for reason, (wanted, used) in checks.items():
        for name in wanted:
            if name and name in used:
                return reason, f'"{name}" is already in use'
    return "", ""


def _resource_names(names: Object) -> list[str]:
    return [names.get("plural", ""), names.get("singular", ""), *(names.get("shortNames") or ())]
