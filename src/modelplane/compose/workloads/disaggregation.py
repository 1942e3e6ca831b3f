"""Prefill and decode on two engines: what is added to their serving pods.

Only the pods that serve are touched, whichever workload they belong to. The decode engine moves off port 8000 to make room for a
sidecar, which sends the prefill phase to where the picker's header says; KV blocks travel between the engines over NIXL.
"""

from __future__ import annotations

import copy
from typing import Final

import msgspec

from modelplane.api.engines import Phase
from modelplane.api.meta import Object
from modelplane.compose.contract import Child
from modelplane.compose.workloads.ground import Ground
from modelplane.compose.workloads.pod import PORT, readiness_probe
from modelplane.errors import InvalidObject

SIDECAR_IMAGE: Final = "ghcr.io/llm-d/llm-d-router-disagg-sidecar:v0.9.0"
DECODE_PORT: Final = 8001
SIDE_CHANNEL_PORT: Final = 5557


def engine_of(engines: list[Object], phase: Phase) -> Object:
    """The engine of a phase; there is exactly one, whatever its name and position."""
    return next(engine for engine in engines if engine.get("phase") == phase)


def serving_container(engine: Object) -> Object:
    """The container that answers requests, as its user wrote it."""
    member = next(m for m in engine["members"] if m.get("role") != "Worker")
    container: Object = member["template"]["spec"]["containers"][0]
    return container


def engine_port(args: list[str]) -> int:
    """The port that the decode engine listens on: its ``--port``, else 8001. Raises InvalidObject for no number."""
    for position, arg in enumerate(args):
        flag, equals, value = arg.partition("=")
        if flag != "--port":
            continue
        if not equals:
            value = args[position + 1] if position + 1 < len(args) else ""
        if not (value.isascii() and value.isdecimal() and 0 < int(value) < 65536 and int(value) != PORT):
            raise InvalidObject(
                f"the decode engine's argument --port is {value!r}; use a number other than {PORT}, where its sidecar listens"
            )
        return int(value)
    return DECODE_PORT


def disaggregated(ground: Ground, engine: Object, workload: Child) -> Child:
    """The workload with its serving pods decorated for the engine's phase."""
    body = copy.deepcopy(workload.manifest)
    spec = body["spec"]
    pod = spec["leaderWorkerTemplate"]["leaderTemplate"] if "leaderWorkerTemplate" in spec else spec["template"]
    phase = str(engine["phase"]).lower()
    pod["metadata"]["labels"] |= {"llm-d.ai/role": phase, "llm-d.ai/inference-serving": "true", "app": ground.replica}
    container = pod["spec"]["containers"][0]
    _side_channel(pod["spec"], container)
    if engine["phase"] == Phase.DECODE:
        port = engine_port(container.get("args") or [])
        container["ports"] = [{"containerPort": port}]
        for probe in ("startupProbe", "readinessProbe"):
            container[probe]["httpGet"]["port"] = port
        pod["spec"]["containers"].append(_sidecar(port))
    return msgspec.structs.replace(workload, manifest=body)


def _side_channel(pod: Object, container: Object) -> None:
    pod["volumes"].append({"name": "nixl-shm", "emptyDir": {"medium": "Memory"}})
    ours = (
        {"name": "VLLM_NIXL_SIDE_CHANNEL_HOST", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "VLLM_NIXL_SIDE_CHANNEL_PORT", "value": str(SIDE_CHANNEL_PORT)},
    )
    theirs = {entry["name"] for entry in container["env"]}
    container["env"] += [entry for entry in ours if entry["name"] not in theirs]


def _sidecar(engine_port: int) -> Object:
    return {
        "name": "pd-sidecar",
        "image": SIDECAR_IMAGE,
        "args": ["--secure-proxy=false", "--kv-connector=nixlv2", f"--vllm-port={engine_port}"],
        "ports": [{"containerPort": PORT}],
        "readinessProbe": readiness_probe(),
    }
