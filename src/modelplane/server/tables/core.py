"""Tables of namespaces, nodes, configuration and events."""

from __future__ import annotations

from datetime import datetime

from modelplane.api.meta import Object
from modelplane.server.columns import NAME, age, name_of
from modelplane.server.resource import Column
from modelplane.server.tables.cells import (
    NONE,
    UNKNOWN,
    Plain,
    Table,
    column,
    created_at,
    spec,
    status,
    table,
    timed,
    untimed,
    wide,
)  # fmt: skip

_ROLE = "node-role.kubernetes.io/"


def _node_status(node: Object) -> str:
    ready = [c for c in status(node).get("conditions") or () if c.get("type") == "Ready"]
    words = [("Ready" if c.get("status") == "True" else "NotReady") for c in ready] or ["Unknown"]
    if spec(node).get("unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def _node_roles(node: Object) -> str:
    found = (node.get("metadata") or {}).get("labels") or {}
    roles = {key.removeprefix(_ROLE) for key in found if key.startswith(_ROLE)} - {""}
    if found.get("kubernetes.io/role"):
        roles.add(found["kubernetes.io/role"])
    return ",".join(sorted(roles)) or NONE


def _address(kind: str) -> Plain:
    def cell(node: Object) -> object:
        found = [a.get("address") for a in status(node).get("addresses") or () if a.get("type") == kind]
        return found[0] if found else NONE

    return cell


def _info(field: str) -> Plain:
    return lambda node: (status(node).get("nodeInfo") or {}).get(field) or UNKNOWN


def _kernel(node: Object) -> str:
    """The kernel, and in brackets the processor it runs on."""
    architecture = (status(node).get("nodeInfo") or {}).get("architecture")
    kernel = _info("kernelVersion")(node)
    return f"{kernel} ({architecture})" if architecture else str(kernel)


def _last_seen(event: Object, now: datetime) -> str:
    series = event.get("series") or {}
    return age(series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("deprecatedLastTimestamp")
               or _first(event), now)  # fmt: skip


def _first(event: Object) -> object:
    return event.get("firstTimestamp") or event.get("deprecatedFirstTimestamp") or event.get("eventTime")


def _about(event: Object) -> Object:
    about: Object = event.get("involvedObject") or event.get("regarding") or {}
    return about


def _target(event: Object) -> str:
    kind, name = str(_about(event).get("kind", "")).lower(), _about(event).get("name")
    return f"{kind}/{name}" if name else kind


def _source(event: Object) -> str:
    source = event.get("source") or event.get("deprecatedSource") or {}
    component = source.get("component") or event.get("reportingComponent") or event.get("reportingController") or ""
    host = source.get("host") or event.get("reportingInstance") or ""
    return ", ".join(part for part in (component, host) if part)


def _message(event: Object) -> str:
    return str(event.get("message") or event.get("note") or "").strip()


def _count(event: Object) -> object:
    series = event.get("series") or {}
    return series.get("count") or event.get("count") or event.get("deprecatedCount") or 1


_EVENT: Table = {
    **dict([timed("Last Seen", _last_seen)]),
    **dict(
        [
            column("Type", lambda event: event.get("type", "")),
            column("Reason", lambda event: event.get("reason", "")),
            column("Object", _target),
            wide("Subobject", lambda event: _about(event).get("fieldPath", "")),
            wide("Source", _source),
            column("Message", _message),
        ]
    ),
    Column("First Seen", priority=1): lambda event, now: age(_first(event), now),
    Column("Count", priority=1): untimed(_count),
    Column("Name", format="name", priority=1): untimed(name_of),
}


def _quota(scope: str) -> Plain:
    def cell(obj: Object) -> str:
        hard, used = status(obj).get("hard") or spec(obj).get("hard") or {}, status(obj).get("used") or {}
        chosen = [name for name in sorted(hard) if name.startswith("limits.") == (scope == "limits")]
        return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in chosen)

    return cell


TABLES: dict[tuple[str, str], Table] = {
    ("", "ConfigMap"): table(
        column("Data", lambda o: len(o.get("data") or {}) + len(o.get("binaryData") or {}), "string")
    ),
    ("", "Secret"): table(
        column("Type", lambda obj: obj.get("type", "")),
        column("Data", lambda obj: len(obj.get("data") or {}), "string"),
    ),
    ("", "ServiceAccount"): table(),
    ("", "Namespace"): table(column("Status", lambda obj: status(obj).get("phase", ""))),
    ("", "LimitRange"): {NAME: untimed(name_of), **dict([created_at()])},
    ("", "ResourceQuota"): table(column("Request", _quota("requests")), column("Limit", _quota("limits"))),
    ("", "Node"): table(
        column("Status", _node_status),
        column("Roles", _node_roles),
        wide=(
            column("Version", _info("kubeletVersion")),
            wide("Internal-IP", _address("InternalIP")),
            wide("External-IP", _address("ExternalIP")),
            wide("OS-Image", _info("osImage")),
            wide("Kernel-Version", _kernel),
            wide("Container-Runtime", _info("containerRuntimeVersion")),
        ),
    ),
    ("", "Event"): _EVENT,
    ("events.k8s.io", "Event"): _EVENT,
    ("coordination.k8s.io", "Lease"): table(column("Holder", lambda obj: spec(obj).get("holderIdentity", ""))),
    ("apiextensions.k8s.io", "CustomResourceDefinition"): {NAME: untimed(name_of), **dict([created_at()])},
}
