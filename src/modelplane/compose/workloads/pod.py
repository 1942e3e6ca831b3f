"""The pod of an engine member, the same for every workload kind.

What a user writes passes through untouched; what the control plane adds goes before the user's entries, because Kubernetes
expands `$(VAR)` from left to right. A serving pod answers on port 8000; workers of a gang have neither port nor probes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from modelplane.api.labels import POOL, REPLICA, SERVED_MODEL_VARIABLE, SERVING
from modelplane.api.meta import Object
from modelplane.compose.workloads.ground import Ground

PORT: Final = 8000
CACHE_PATH: Final = "/mnt/models"
STARTUP_SECONDS: Final = 2 * 60 * 60
"""How long an engine may load its weights before its container counts as failed."""

_HEALTH: Final = {"path": "/health", "port": PORT}


def readiness_probe() -> Object:
    """Without a delay: the startup probe has waited already."""
    return {"httpGet": dict(_HEALTH), "periodSeconds": 10, "timeoutSeconds": 5}


def role_of(member: Object) -> str:
    return member.get("role") or "Standalone"


def pod_template(
    ground: Ground,
    engine: str,
    member: Object,
    *,
    serving: bool,
    labels: dict[str, str],
    env: Sequence[Object] = (),
    keep_empty_args: bool = False,
) -> Object:
    """Metadata and spec of a member's pods. ``labels`` and ``env`` are what the workload kind adds."""
    metadata = (member.get("template") or {}).get("metadata") or {}
    managed = {REPLICA: ground.replica, **({SERVING: ground.replica} if serving else {}), **labels}
    template: Object = {
        "metadata": {"labels": {**(metadata.get("labels") or {}), **managed}},
        "spec": _pod_spec(ground, engine, member, serving=serving, env=env, keep_empty_args=keep_empty_args),
    }
    if metadata.get("annotations"):
        template["metadata"]["annotations"] = dict(metadata["annotations"])
    return template


def _pod_spec(
    ground: Ground, engine: str, member: Object, *, serving: bool, env: Sequence[Object], keep_empty_args: bool
) -> Object:
    user = (member.get("template") or {}).get("spec") or {}
    spec: Object = {
        "containers": [
            _container(ground, member, user["containers"][0], serving=serving, env=env, keep_empty_args=keep_empty_args)
        ],
        "nodeSelector": {POOL: member["nodePoolName"]},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "volumes": [{"name": "dshm", "emptyDir": {"medium": "Memory"}}],
    }
    if ground.cache_volume_claim:
        claim = {"claimName": ground.cache_volume_claim}
        spec["volumes"].append({"name": "model-cache", "persistentVolumeClaim": claim})
    if member.get("deviceRequests"):
        template = ground.claim_template(engine, role_of(member))
        spec["resourceClaims"] = [{"name": "devices", "resourceClaimTemplateName": template}]
    if user.get("imagePullSecrets"):
        spec["imagePullSecrets"] = list(user["imagePullSecrets"])
    return spec


def _container(
    ground: Ground, member: Object, user: Object, *, serving: bool, env: Sequence[Object], keep_empty_args: bool
) -> Object:
    container: Object = {"name": "engine", "image": user["image"]}
    if user.get("command"):
        container["command"] = list(user["command"])
    args = _args(ground, user, serving=serving)
    if args or keep_empty_args:
        container["args"] = args
    container["env"] = _env(ground, user, env)
    container["volumeMounts"] = [{"name": "dshm", "mountPath": "/dev/shm"}]
    if ground.cache is not None:
        container["volumeMounts"].append({"name": "model-cache", "mountPath": CACHE_PATH})
    if member.get("deviceRequests"):
        container["resources"] = {"claims": [{"name": "devices"}]}
    if serving:
        container["ports"] = [{"containerPort": PORT}]
        container["startupProbe"] = {
            "httpGet": dict(_HEALTH),
            "periodSeconds": 1,
            "timeoutSeconds": 1,
            "failureThreshold": STARTUP_SECONDS,
        }
        container["readinessProbe"] = readiness_probe()
    return container


def _args(ground: Ground, user: Object, *, serving: bool) -> list[str]:
    """The user's arguments; an engine that starts by its image's own entry point is told where its cache is."""
    args = list(user.get("args") or ())
    told = any(arg == "--model" or arg.startswith("--model=") for arg in args)
    if serving and ground.cache is not None and not user.get("command") and not told:
        args.append(f"--model={CACHE_PATH}")
    return args


def _env(ground: Ground, user: Object, env: Sequence[Object]) -> list[Object]:
    ours = [*env, {"name": SERVED_MODEL_VARIABLE, "value": ground.served_model}]
    taken = {entry["name"] for entry in ours}
    return [*ours, *(dict(entry) for entry in user.get("env") or () if entry["name"] not in taken)]
