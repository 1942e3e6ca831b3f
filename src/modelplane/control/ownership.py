"""How an object says whose it is.

On the control cluster an owner reference does, and garbage collection understands it. Elsewhere labels do: UID of the owner, key of
the child, UID of the control plane. An object that says it is somebody else's is never touched.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Final

import msgspec

from modelplane.api.meta import GVK, Object

OWNER: Final = "modelplane.ai/owner-uid"
CHILD: Final = "modelplane.ai/child-key"
CONTROL_PLANE: Final = "modelplane.ai/control-plane-uid"
FIELD_MANAGER: Final = "modelplane"

NARROW: Final = frozenset((GVK("", "v1", "Secret"), GVK("", "v1", "ConfigMap")))
"""Kinds that are never watched whole on the control cluster: ours among them are found by label."""

_VALUE: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


class Owner(msgspec.Struct, frozen=True):
    """The parent of children: what their references and labels name."""

    api_version: str
    kind: str
    name: str
    namespace: str
    uid: str
    control_plane: str

    @classmethod
    def of(cls, xr: Object, control_plane: str) -> Owner:
        metadata = xr["metadata"]
        return cls(
            xr["apiVersion"],
            xr["kind"],
            metadata["name"],
            metadata.get("namespace") or "",
            metadata["uid"],
            control_plane,
        )


def label_value(text: str) -> str:
    """The text where it is a valid label value, else a valid one that stands for it."""
    if _VALUE.fullmatch(text):
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:10]
    stem = re.sub(r"[^-A-Za-z0-9_.]", "-", text).strip("-_.")[:52].rstrip("-_.")
    return f"{stem}-{digest}" if stem else digest


def owner_labels(owner: Owner, key: str) -> Mapping[str, str]:
    """Labels of an object that garbage collection cannot trace to its owner."""
    return {OWNER: owner.uid, CHILD: label_value(key), CONTROL_PLANE: owner.control_plane}


def marked(manifest: Object, owner: Owner, key: str, *, remote: bool, shared: bool, retain: bool) -> Object:
    """The manifest with the marks of its owner. A shared object belongs to the control plane, no single parent; one to be
    retained must not be collected, so it is labelled on the control cluster too."""
    metadata = dict(manifest["metadata"])
    if shared:
        metadata["labels"] = {**(metadata.get("labels") or {}), CONTROL_PLANE: owner.control_plane}
    elif remote or retain:
        metadata["labels"] = {**(metadata.get("labels") or {}), **owner_labels(owner, key)}
    else:
        if GVK.of(manifest) in NARROW:
            metadata["labels"] = {**(metadata.get("labels") or {}), CONTROL_PLANE: owner.control_plane}
        metadata["ownerReferences"] = [
            {
                "apiVersion": owner.api_version,
                "kind": owner.kind,
                "name": owner.name,
                "uid": owner.uid,
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ]
    return {**manifest, "metadata": metadata}


def owner_uid(obj: Object) -> str | None:
    """UID of the parent that an object names, by reference or label."""
    metadata = obj["metadata"]
    for reference in metadata.get("ownerReferences") or ():
        if reference.get("controller"):
            uid: str = reference["uid"]
            return uid
    label: str | None = (metadata.get("labels") or {}).get(OWNER)
    return label


def control_plane_of(obj: Object) -> str | None:
    value: str | None = (obj["metadata"].get("labels") or {}).get(CONTROL_PLANE)
    return value


class Ref(msgspec.Struct, frozen=True, order=True):
    """Where an object is: cluster ("" for the control cluster), kind, namespace, name."""

    cluster: str
    gvk: GVK
    namespace: str
    name: str

    @classmethod
    def of(cls, obj: Object, cluster: str | None) -> Ref:
        metadata = obj["metadata"]
        return cls(cluster or "", GVK.of(obj), metadata.get("namespace") or "", metadata["name"])

    @property
    def target(self) -> str | None:
        return self.cluster or None

    def __str__(self) -> str:
        name = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.gvk.kind} {name}" + (f" on {self.cluster}" if self.cluster else "")
