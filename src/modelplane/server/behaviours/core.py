"""Behaviours of the core kinds that are data: namespaces, secrets, config maps, volumes, events."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass

from modelplane.api.meta import Object
from modelplane.server.behaviours.behaviour import Behaviour
from modelplane.server.schema import ErrorType, FieldError
from modelplane.server.store import Store

NAME_LABEL = "kubernetes.io/metadata.name"
DATA_LIMIT = 1 << 20


@dataclass(frozen=True)
class Namespaces(Behaviour):
    """A namespace has a finalizer of its own in its spec, so that its content goes first."""

    def normalize(self, obj: Object) -> None:
        metadata = obj["metadata"]
        if metadata.get("name"):
            metadata["labels"] = {**(metadata.get("labels") or {}), NAME_LABEL: metadata["name"]}

    def prepare_create(self, obj: Object, store: Store) -> None:
        finalizers = (obj.get("spec") or {}).get("finalizers") or []
        obj["spec"] = {"finalizers": [*finalizers, *(["kubernetes"] if "kubernetes" not in finalizers else [])]}
        obj["status"] = {"phase": "Active"}

    def prepare_update(self, new: Object, old: Object, store: Store) -> None:
        new["spec"] = old.get("spec", {})


@dataclass(frozen=True)
class Secrets(Behaviour):
    """``stringData`` is written into ``data``; an immutable secret stays as it is."""

    def normalize(self, obj: Object) -> None:
        _merge_string_data(obj)
        obj.setdefault("type", "Opaque")

    def check(self, new: Object, old: Object | None) -> Sequence[FieldError]:
        errors = _frozen(new, old, ("data",))
        for key in _REQUIRED.get(new.get("type", ""), ()):
            if key not in (new.get("data") or {}):
                errors.append(FieldError(path=f"data[{key}]", type=ErrorType.REQUIRED))
        return [*errors, *_too_big(new.get("data"))]


_REQUIRED = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
}


@dataclass(frozen=True)
class ConfigMaps(Behaviour):
    """An immutable config map stays as it is; the content has a limit."""

    def check(self, new: Object, old: Object | None) -> Sequence[FieldError]:
        return [*_frozen(new, old, ("data", "binaryData")), *_too_big(new.get("data"))]


@dataclass(frozen=True)
class PersistentVolumes(Behaviour):
    """Pending until a binder says otherwise."""

    def prepare_create(self, obj: Object, store: Store) -> None:
        obj["status"] = {"phase": "Pending"}


@dataclass(frozen=True)
class PersistentVolumeClaims(Behaviour):
    """Pending until a binder says otherwise."""

    def prepare_create(self, obj: Object, store: Store) -> None:
        obj["status"] = {"phase": "Pending"}


@dataclass(frozen=True)
class Jobs(Behaviour):
    """A job finds its pods by its own uid, unless it brings a selector."""

    def prepare_create(self, obj: Object, store: Store) -> None:
        spec, metadata = obj.setdefault("spec", {}), obj["metadata"]
        if spec.get("manualSelector"):
            return
        template = spec.setdefault("template", {})
        own = {"job-name": metadata.get("name", ""), "controller-uid": metadata["uid"]}
        own |= {f"batch.kubernetes.io/{label}": value for label, value in own.items()}
        labelled = template.setdefault("metadata", {})
        labelled["labels"] = {**(labelled.get("labels") or {}), **own}
        metadata.setdefault("labels", labelled["labels"])
        spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": metadata["uid"]}}


@dataclass(frozen=True)
class Autoscalers(Behaviour):
    """An autoscaler that nobody acted on yet wants nothing."""

    def prepare_create(self, obj: Object, store: Store) -> None:
        obj["status"] = {"desiredReplicas": 0, "currentMetrics": None}


@dataclass(frozen=True)
class Nodes(Behaviour):
    """What a kubelet leaves out of a node's status."""

    keeps_status: bool = True

    def normalize(self, obj: Object) -> None:
        status = obj.setdefault("status", {})
        if status.get("capacity"):
            status.setdefault("allocatable", status["capacity"])
        status["daemonEndpoints"] = {"kubeletEndpoint": {"Port": 0}, **(status.get("daemonEndpoints") or {})}
        status["nodeInfo"] = {**dict.fromkeys(_NODE_INFO, ""), **(status.get("nodeInfo") or {})}


_NODE_INFO = (
    "machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "containerRuntimeVersion", "kubeletVersion",
    "kubeProxyVersion", "operatingSystem", "architecture",
)  # fmt: skip


@dataclass(frozen=True)
class Events(Behaviour):
    """An event is about an object of its own namespace."""

    creates_on_update: bool = True

    def check(self, new: Object, old: Object | None) -> Sequence[FieldError]:
        name = "regarding" if "regarding" in new else "involvedObject"
        namespace = new["metadata"].get("namespace", "")
        about = (new.get(name) or {}).get("namespace", "")
        if about == namespace or (not about and namespace == "default"):
            return ()
        message = "does not match event.namespace"
        return [FieldError(path=f"{name}.namespace", type=ErrorType.INVALID, bad_value=about, message=message)]


def _merge_string_data(obj: Object) -> None:
    plain = obj.pop("stringData", None)
    if plain:
        encoded = {key: base64.b64encode(str(value).encode()).decode() for key, value in plain.items()}
        obj["data"] = {**(obj.get("data") or {}), **encoded}


def _frozen(new: Object, old: Object | None, fields: Sequence[str]) -> list[FieldError]:
    if old is None or not old.get("immutable"):
        return []
    message = "field is immutable when `immutable` is set"
    errors = [
        FieldError(path=name, type=ErrorType.FORBIDDEN, message=message)
        for name in fields
        if (new.get(name) or {}) != (old.get(name) or {})
    ]
    if not new.get("immutable"):
        errors.append(FieldError(path="immutable", type=ErrorType.FORBIDDEN, message=message))
    return errors


def _too_big(data: Object | None) -> list[FieldError]:
    if not data or sum([len(value or "") for value in data.values()]) <= DATA_LIMIT * 4 // 3:
        return []
    return [FieldError(path="data", type=ErrorType.TOO_LONG, message=f"may not be more than {DATA_LIMIT} bytes")]
