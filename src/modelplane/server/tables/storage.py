"""Tables of volumes, storage classes and devices."""

from __future__ import annotations

from modelplane.api.meta import Object
from modelplane.server.columns import NAME, name_of
from modelplane.server.resource import Column
from modelplane.server.tables.cells import (
    UNSET,
    Table,
    column,
    comma,
    created_at,
    number,
    spec,
    status,
    table,
    untimed,
    wide,
)

_STORAGE = "storage.k8s.io"
_DRA = "resource.k8s.io"
_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
_DEFAULT = "storageclass.kubernetes.io/is-default-class"


def _modes(values: object) -> str:
    return ",".join(_MODES.get(str(value), str(value)) for value in values) if isinstance(values, list) else ""


def _claim(volume: Object) -> str:
    reference = spec(volume).get("claimRef")
    return f"{reference.get('namespace', '')}/{reference.get('name', '')}" if reference else ""


def _phase(obj: Object) -> str:
    return "Terminating" if (obj.get("metadata") or {}).get("deletionTimestamp") else str(status(obj).get("phase", ""))


def _class_name(obj: Object) -> object:
    default = ((obj.get("metadata") or {}).get("annotations") or {}).get(_DEFAULT) == "true"
    return f"{name_of(obj)} (default)" if default else name_of(obj)


def _claim_state(claim: Object) -> str:
    states = []
    if (claim.get("metadata") or {}).get("deletionTimestamp"):
        states.append("deleted")
    if not status(claim).get("allocation"):
        states.append("pending")
    else:
        states.append("allocated")
        if status(claim).get("reservedFor"):
            states.append("reserved")
    return ",".join(states)


TABLES: dict[tuple[str, str], Table] = {
    ("", "PersistentVolume"): table(
        column("Capacity", lambda obj: (spec(obj).get("capacity") or {}).get("storage", "")),
        column("Access Modes", lambda obj: _modes(spec(obj).get("accessModes"))),
        column("Reclaim Policy", lambda obj: spec(obj).get("persistentVolumeReclaimPolicy", "")),
        column("Status", _phase),
        column("Claim", _claim),
        column("StorageClass", lambda obj: spec(obj).get("storageClassName", "")),
        column("VolumeAttributesClass", lambda obj: spec(obj).get("volumeAttributesClassName") or UNSET),
        column("Reason", lambda obj: status(obj).get("reason", "")),
        wide=(wide("VolumeMode", lambda obj: spec(obj).get("volumeMode") or UNSET),),
    ),
    ("", "PersistentVolumeClaim"): table(
        column("Status", _phase),
        column("Volume", lambda obj: spec(obj).get("volumeName", "")),
        column("Capacity", lambda obj: (status(obj).get("capacity") or {}).get("storage", "")),
        column("Access Modes", lambda obj: _modes(status(obj).get("accessModes"))),
        column("StorageClass", lambda obj: spec(obj).get("storageClassName", "")),
        column("VolumeAttributesClass", lambda obj: spec(obj).get("volumeAttributesClassName") or UNSET),
        wide=(wide("VolumeMode", lambda obj: spec(obj).get("volumeMode") or UNSET),),
    ),
    (_STORAGE, "StorageClass"): table(
        column("Provisioner", lambda obj: obj.get("provisioner", "")),
        column("ReclaimPolicy", lambda obj: obj.get("reclaimPolicy", "")),
        column("VolumeBindingMode", lambda obj: obj.get("volumeBindingMode", "")),
        column("AllowVolumeExpansion", lambda obj: str(bool(obj.get("allowVolumeExpansion"))).lower()),
        name=_class_name,
    ),
    (_STORAGE, "CSINode"): table(number("Drivers", lambda obj: len(spec(obj).get("drivers") or ()))),
    (_STORAGE, "CSIDriver"): table(
        column("AttachRequired", lambda obj: spec(obj).get("attachRequired", True), "boolean"),
        column("PodInfoOnMount", lambda obj: spec(obj).get("podInfoOnMount", False), "boolean"),
        column("StorageCapacity", lambda obj: spec(obj).get("storageCapacity", False), "boolean"),
        column("TokenRequests", lambda o: comma(t.get("audience") for t in spec(o).get("tokenRequests") or ())),
        column("RequiresRepublish", lambda obj: spec(obj).get("requiresRepublish", False), "boolean"),
        column("Modes", lambda obj: comma(spec(obj).get("volumeLifecycleModes") or ())),
    ),
    (_STORAGE, "CSIStorageCapacity"): {NAME: untimed(name_of), **dict([created_at()])},
    (_STORAGE, "VolumeAttachment"): table(
        (Column("Attacher", format="name"), untimed(lambda obj: spec(obj).get("attacher", ""))),
        column("PV", lambda obj: (spec(obj).get("source") or {}).get("persistentVolumeName", "")),
        column("Node", lambda obj: spec(obj).get("nodeName", "")),
        column("Attached", lambda obj: bool(status(obj).get("attached")), "boolean"),
    ),
    (_DRA, "ResourceClaim"): table(column("State", _claim_state)),
    (_DRA, "ResourceSlice"): table(
        column("Node", lambda obj: spec(obj).get("nodeName", "")),
        column("Driver", lambda obj: spec(obj).get("driver", "")),
        column("Pool", lambda obj: (spec(obj).get("pool") or {}).get("name", "")),
    ),
}
