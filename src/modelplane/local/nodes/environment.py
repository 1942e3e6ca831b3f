"""A container's environment, resolved as the kubelet does; what is missing is an error with the kubelet's words. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from modelplane.api.meta import Object
from modelplane.local.scheduler.amounts import thousandths

Lookup: TypeAlias = Callable[[str, str], Mapping[str, str] | None]
"""Kind (ConfigMap or Secret) and name to decoded data; None when there is none."""

_REFERENCE: Final = re.compile(r"\$(\$|\(([A-Za-z_][A-Za-z0-9_.-]*)\))")
_KEYED: Final = re.compile(r"^metadata\.(labels|annotations)\['(.+)'\]$")


class ConfigError(Exception):
    """The container cannot be made: CreateContainerConfigError."""


def resolve(container: Mapping[str, Any], pod: Object, lookup: Lookup) -> dict[str, str]:
    """The variables of a container, in order, later ones seeing earlier ones. Raises `ConfigError`."""
    found: dict[str, str] = {}
    for source in container.get("envFrom") or ():
        found |= _all(source, lookup)
    for entry in container.get("env") or ():
        if "value" in entry or not entry.get("valueFrom"):
            found[entry["name"]] = expand(str(entry.get("value") or ""), found)
            continue
        value = _value(entry["valueFrom"], container, pod, lookup)
        if value is not None:
            found[entry["name"]] = value
    return found


def command(container: Mapping[str, Any], variables: Mapping[str, str]) -> list[str]:
    """Command and arguments with `$(VAR)` filled in; a variable that is unknown stays as it is written."""
    words: Sequence[str] = [*(container.get("command") or ()), *(container.get("args") or ())]
    return [expand(word, variables) for word in words]


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Kubernetes' expansion: `$(VAR)`, and `$$(VAR)` for a literal one."""

    def fill(match: re.Match[str]) -> str:
        if match.group(1) == "$":
            return "$"
        return variables.get(match.group(2), match.group(0))

    return _REFERENCE.sub(fill, text)


def _all(source: Mapping[str, Any], lookup: Lookup) -> dict[str, str]:
    for field, kind in (("configMapRef", "ConfigMap"), ("secretRef", "Secret")):
        reference = source.get(field)
        if reference is None:
            continue
        data = lookup(kind, reference["name"])
        if data is None:
            if reference.get("optional"):
                return {}
            raise ConfigError(f'{kind.lower()} "{reference["name"]}" not found')
        prefix = source.get("prefix") or ""
        return {prefix + key: value for key, value in data.items()}
    return {}


def _value(source: Mapping[str, Any], container: Mapping[str, Any], pod: Object, lookup: Lookup) -> str | None:
    if "fieldRef" in source:
        return _field(source["fieldRef"]["fieldPath"], pod)
    if "resourceFieldRef" in source:
        return _resource(source["resourceFieldRef"], container, pod)
    for field, kind in (("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret")):
        reference = source.get(field)
        if reference is None:
            continue
        data = lookup(kind, reference["name"])
        namespace = pod["metadata"]["namespace"]
        if data is None:
            if reference.get("optional"):
                return None
            raise ConfigError(f'{kind.lower()} "{reference["name"]}" not found')
        if reference["key"] not in data:
            if reference.get("optional"):
                return None
            raise ConfigError(f"couldn't find key {reference['key']} in {kind} {namespace}/{reference['name']}")
        return data[reference["key"]]
    return None


def _field(path: str, pod: Object) -> str:
    metadata, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
    keyed = _KEYED.match(path)
    if keyed:
        return str((metadata.get(keyed.group(1)) or {}).get(keyed.group(2), ""))
    values = {
        "metadata.name": metadata["name"],
        "metadata.namespace": metadata["namespace"],
        "metadata.uid": metadata["uid"],
        "spec.nodeName": spec.get("nodeName", ""),
        "spec.serviceAccountName": spec.get("serviceAccountName", "default"),
        "status.podIP": status.get("podIP", ""),
        "status.podIPs": ",".join(entry["ip"] for entry in status.get("podIPs") or ()),
        "status.hostIP": status.get("hostIP", "127.0.0.1"),
        "status.hostIPs": status.get("hostIP", "127.0.0.1"),
    }
    if path not in values:
        raise ConfigError(f"unsupported fieldPath: {path}")
    return str(values[path])


def _resource(reference: Mapping[str, Any], container: Mapping[str, Any], pod: Object) -> str:
    named = reference.get("containerName")
    if named:
        container = next((c for c in pod["spec"]["containers"] if c["name"] == named), container)
    which, _, name = str(reference["resource"]).partition(".")
    resources = container.get("resources") or {}
    quantity = (resources.get(which) or {}).get(name) or (resources.get("limits") or {}).get(name) or "0"
    divisor = thousandths(str(reference.get("divisor") or "1")) or 1000
    return str(-(-thousandths(str(quantity)) // divisor))
