"""The endpoint picker of a replica: six objects of one name, and the text that configures it.

The text's layout is a contract, because its checksum rolls the picker's pod (it reads its configuration once). The explicit
producer with autoTune off is needed: otherwise the prefix attribute stays empty, silently.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

from modelplane.api.engines import ServingMode
from modelplane.api.labels import PICKER_CHECKSUM
from modelplane.api.meta import Object
from modelplane.compose.contract import Cel, Child, OnCreate
from modelplane.compose.kinds import (
    CONFIG_MAP,
    DEPLOYMENT,
    ROLE,
    ROLE_BINDING,
    SERVICE,
    SERVICE_ACCOUNT,
    manifest,
)
from modelplane.compose.workloads.ground import Ground

IMAGE: Final = "ghcr.io/llm-d/llm-d-router-endpoint-picker:v0.9.0"
PORT: Final = 9002
DEFAULT_BLOCK: Final = 16

AVAILABLE: Final = Cel(
    "has(object.status) && has(object.status.conditions)"
    " && object.status.conditions.exists(c, c.type == 'Available' && c.status == 'True')"
)

_HEAD: Final = """\
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: approx-prefix-cache-producer
  parameters:
    autoTune: false
    blockSizeTokens: {block}
    maxPrefixBlocksToMatch: 256
    lruCapacityPerServer: 31250
- type: prefix-cache-scorer
"""

_SCORED: Final = """\
  - pluginRef: max-score-picker
  - pluginRef: prefix-cache-scorer
    weight: 2
  - pluginRef: queue-scorer
    weight: 1
"""

_UNIFIED: Final = f"""\
{_HEAD}- type: queue-scorer
- type: max-score-picker
schedulingProfiles:
- name: default
  plugins:
{_SCORED}"""

# Zero nonCachedTokens would switch the decider off.
_PREFILL_DECODE: Final = f"""\
{_HEAD}- type: disagg-headers-handler
- type: queue-scorer
- type: prefill-filter
- type: decode-filter
- type: max-score-picker
- type: prefix-based-pd-decider
  parameters:
    nonCachedTokens: 16
- type: disagg-profile-handler
  parameters:
    deciders:
      prefill: prefix-based-pd-decider
schedulingProfiles:
- name: prefill
  plugins:
  - pluginRef: prefill-filter
{_SCORED}- name: decode
  plugins:
  - pluginRef: decode-filter
{_SCORED}"""


def block_size(args: Sequence[str]) -> int:
    """Tokens per KV block as the engine's arguments say it: ``--block-size`` or ``--page-size``, 16 without an integer."""
    for position, arg in enumerate(args):
        flag, equals, value = arg.partition("=")
        if flag not in ("--block-size", "--page-size"):
            continue
        if not equals:
            value = args[position + 1] if position + 1 < len(args) else ""
        return int(value) if value.isascii() and value.isdecimal() else DEFAULT_BLOCK
    return DEFAULT_BLOCK


def picker_config(block: int, mode: ServingMode) -> str:
    """The picker's configuration for engines that hash in blocks of so many tokens."""
    text = _PREFILL_DECODE if mode is ServingMode.PREFILL_DECODE else _UNIFIED
    return text.format(block=block)


def picker(ground: Ground, config: str) -> list[Child]:
    """The six objects, in the order in which they can be applied."""
    name, namespace = ground.picker, ground.remote_namespace
    bodies = {
        "epp-serviceaccount": manifest(SERVICE_ACCOUNT, name, namespace),
        "epp-role": manifest(ROLE, name, namespace, rules=_rules()),
        "epp-rolebinding": manifest(
            ROLE_BINDING,
            name,
            namespace,
            roleRef={"apiGroup": ROLE.group, "kind": ROLE.kind, "name": name},
            subjects=[{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
        ),
        "epp-config": manifest(CONFIG_MAP, name, namespace, data={"epp-config.yaml": config}),
        "epp": manifest(DEPLOYMENT, name, namespace, spec=_deployment(ground, config)),
        "epp-service": manifest(SERVICE, name, namespace, spec=_service(name)),
    }
    return [
        Child(
            key=key,
            manifest=body,
            target=ground.cluster,
            immutable=("roleRef",) if key == "epp-rolebinding" else (),
            ready=AVAILABLE if key == "epp" else OnCreate(),
        )
        for key, body in bodies.items()
    ]


def _rules() -> list[Object]:
    watched = (
        ("", "pods"),
        ("inference.networking.k8s.io", "inferencepools"),
        ("inference.networking.x-k8s.io", "inferenceobjectives"),
    )
    return [
        {"apiGroups": [group], "resources": [resource], "verbs": ["get", "watch", "list"]}
        for group, resource in watched
    ]


def _deployment(ground: Ground, config: str) -> Object:
    name = ground.picker
    container = {
        "name": "epp",
        "image": IMAGE,
        "args": [
            f"--pool-name={ground.pool}",
            f"--pool-namespace={ground.remote_namespace}",
            "--pool-group=inference.networking.k8s.io",
            "--config-file=/config/epp-config.yaml",
            f"--grpc-port={PORT}",
        ],
        "ports": [{"containerPort": PORT, "name": "grpc"}, {"containerPort": PORT + 1, "name": "grpc-health"}],
        "volumeMounts": [{"name": "config", "mountPath": "/config"}],
    }
    return {
        "replicas": 1,
        "selector": {"matchLabels": {"app": name}},
        "template": {
            "metadata": {
                "labels": {"app": name},
                "annotations": {PICKER_CHECKSUM: hashlib.sha256(config.encode()).hexdigest()},
            },
            "spec": {
                "containers": [container],
                "serviceAccountName": name,
                "volumes": [{"name": "config", "configMap": {"name": name}}],
            },
        },
    }


def _service(name: str) -> Object:
    port = {"name": "grpc-ext-proc", "port": PORT, "targetPort": PORT, "appProtocol": "http2"}
    return {"ports": [port], "selector": {"app": name}}
