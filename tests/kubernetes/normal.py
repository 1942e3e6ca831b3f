"""What a namespace looks like when everything that chance or the clock decides is taken out.

Times, uids, versions, addresses, and the random ends of names say nothing. A template's hash is called after the template's image:
what matters is which objects have the same. Objects with names of their own are found by them, generated ones are sorted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from modelplane.api.meta import Object, Resource
from modelplane.local import kinds

COMPARED: Final[tuple[Resource, ...]] = (
    kinds.DEPLOYMENT, kinds.REPLICA_SET, kinds.POD, kinds.JOB, kinds.SERVICE, kinds.ENDPOINT_SLICE, kinds.CLAIM, kinds.CONFIG_MAP,
    kinds.NAMESPACE,
)  # fmt: skip
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_ADDRESS: Final = re.compile(r"\b\d+\.\d+\.\d+\.\d+\b")
_UID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_DROPPED: Final = ("managedFields", "resourceVersion", "uid", "creationTimestamp", "generation", "selfLink")
_NOT_OURS: Final = ("kube-root-ca.crt",)
HASH: Final = "pod-template-hash"


def picture(objects: Mapping[Resource, Iterable[Object]]) -> dict[str, Any]:
    """By kind: named objects by name, generated ones sorted."""
    sets = list(objects[kinds.REPLICA_SET])
    hashes = {
        mark: each["spec"]["template"]["spec"]["containers"][0]["image"]
        for each in sets
        if (mark := (each["metadata"].get("labels") or {}).get(HASH))
    }
    generated = [each["metadata"] for each in objects[kinds.POD] if each["metadata"].get("generateName")]
    pods = {each["name"]: each["generateName"] + "*" for each in generated}
    return {kind.plural: _kind(kind, found, _renaming(hashes, pods)) for kind, found in objects.items()}


def _renaming(hashes: Mapping[str, str], pods: Mapping[str, str]) -> Callable[[str], str]:
    """Hashes to images, and what hangs behind a hash is random, as are names of pods that are part of other names."""

    def rename(text: str) -> str:
        for name, shown in pods.items():
            text = text.replace(name, shown)
        for mark, image in hashes.items():
            text = re.sub(
                rf"\b{mark}(-[a-z0-9]{{5}}\b)?", lambda found, i=image: f"<{i}>{'-*' if found[1] else ''}", text
            )
        return text

    return rename


def _kind(kind: Resource, objects: Iterable[Object], rename: Callable[[str], str]) -> Any:
    named: dict[str, Any] = {}
    generated: list[Any] = []
    for obj in objects:
        metadata = obj["metadata"]
        if metadata["name"] in _NOT_OURS:
            continue
        shown = _value(_essence(kind, obj), "", rename)
        if metadata.get("generateName"):
            shown["metadata"]["name"] = rename(metadata["generateName"]) + "*"
            generated.append(shown)
        else:
            named[rename(metadata["name"])] = shown
    generated.sort(key=lambda each: json.dumps(each, sort_keys=True))
    return {**named, **{f"{number}": each for number, each in enumerate(generated)}}


def _essence(kind: Resource, obj: Object) -> Object:
    """Without what the API server fills in, which is another suite's; and with what was observed as true or false."""
    metadata = {key: value for key, value in obj["metadata"].items() if key not in _DROPPED}
    shown: Object = {"metadata": metadata}
    status = dict(obj.get("status") or {})
    if "observedGeneration" in status:
        status["observedGeneration"] = status["observedGeneration"] == obj["metadata"].get("generation")
    spec = obj.get("spec") or {}
    if kind == kinds.POD:
        shown["image"] = spec["containers"][0]["image"]
        shown["nodeName"] = spec.get("nodeName")
        shown["restartPolicy"] = spec.get("restartPolicy")
        conditions = {
            c["type"]: c["status"] for c in status.get("conditions") or () if c["type"] in ("Ready", "PodScheduled")
        }
        claims = status.get("resourceClaimStatuses")
        status = {"phase": status.get("phase"), "conditions": conditions, "resourceClaimStatuses": claims}
    elif kind in (kinds.DEPLOYMENT, kinds.REPLICA_SET, kinds.JOB):
        status["conditions"] = [_condition(each) for each in status.get("conditions") or ()]
        fields = ("replicas", "selector", "paused", "suspend", "completions", "parallelism", "minReadySeconds")
        shown["spec"] = {key: spec[key] for key in fields if key in spec}
        shown["template"] = (spec.get("template") or {}).get("metadata")
    elif kind == kinds.ENDPOINT_SLICE:
        shown |= {key: obj.get(key) for key in ("addressType", "endpoints", "ports")}
    elif kind == kinds.CONFIG_MAP:
        shown["data"] = obj.get("data")
    elif kind in (kinds.CLAIM, kinds.NAMESPACE):
        shown["spec"] = spec
    if status and kind != kinds.SERVICE:
        shown["status"] = status
    return shown


def _condition(condition: Mapping[str, Any]) -> Mapping[str, Any]:
    """On its way a rollout has several names, and which one is there depends on what the controller happened to see."""
    if condition["reason"] in ("NewReplicaSetCreated", "FoundNewReplicaSet", "ReplicaSetUpdated"):
        return {"type": condition["type"], "status": condition["status"], "reason": "on its way"}
    return condition


def _value(value: Any, key: str, rename: Callable[[str], str]) -> Any:
    if isinstance(value, dict):
        return {
            rename(name): _value(inner, name, rename)
            for name, inner in sorted(value.items())
            if inner not in (None, {}, []) and name != "uid"
        }
    if isinstance(value, list):
        shown = [_value(inner, key, rename) for inner in value]
        return sorted(shown, key=lambda each: json.dumps(each, sort_keys=True)) if key != "containers" else shown
    if isinstance(value, str):
        text = _UID.sub("UID", _ADDRESS.sub("ADDRESS", _TIME.sub("TIME", rename(value))))
        if key in ("name", "resourceClaimName", "generateName"):
            text = re.sub(r"-[a-z0-9]{5}$", "-*", text) if key != "generateName" else text
        return text
    return value
