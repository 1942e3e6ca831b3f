"""Label, annotation, taint and variable names, and the syntax of labels as rules.

The prefix ``modelplane.ai/`` is reserved on labels that users hand over for propagation (templates); on the objects that users
create themselves it is ordinary, and ``modelplane.ai/region`` is theirs to choose.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, TypeAlias

from modelplane.api.shape import Rule, entries, text

PREFIX: Final = "modelplane.ai/"

DEPLOYMENT: Final = "modelplane.ai/deployment"
"""On replicas and endpoints: the owning deployment; what a ModelService selects by."""
CLUSTER: Final = "modelplane.ai/cluster"
"""On replicas, endpoints and routes: the InferenceCluster."""
REPLICA_INDEX: Final = "modelplane.ai/replica-index"
"""Tells replicas of one deployment on one cluster apart; missing or malformed reads as 0."""
REPLICA: Final = "modelplane.ai/replica"
"""On engine pods: the replica's name."""
SERVING: Final = "modelplane.ai/serving"
"""On the engine pods that answer requests: the replica's name; the InferencePool selects by it."""
WORKLOAD: Final = "modelplane.ai/workload"
"""On pods of a Standalone engine: the workload's name."""
LEADER_ROLE: Final = "modelplane.ai/lws-role"
"""On the leader pod of a gang: ``leader``."""
POOL: Final = "modelplane.ai/pool"
"""On nodes: the pool they belong to."""
GPU: Final = "modelplane.ai/gpu"
"""On nodes of provisioned GPU pools: the accelerator type."""
CACHE: Final = "modelplane.ai/modelcache"
"""On remote objects of a cache: the ModelCache's name."""
SERVICE: Final = "modelplane.ai/service"
"""On a ModelRoute: the ModelService."""
GATEWAY: Final = "modelplane.ai/gateway"
"""On a ModelRoute: the InferenceGateway."""

PLACEMENT: Final = "modelplane.ai/placement"
"""Annotation of a ModelReplica: the verdict that placed it."""
PICKER_CHECKSUM: Final = "modelplane.ai/epp-config-checksum"
"""Annotation of a picker's pod template: hash of its configuration, so that a change rolls the pod."""

IDLE_TIMEOUT: Final = "modelplane.ai/idle-timeout"
"""Annotation of a ModelService's HTTPRoute, since Gateway API has no word for it: the longest silence before the first byte and
between bytes, as a duration; ``0s`` for no limit."""
HEALTH_PATH: Final = "modelplane.ai/health-path"
"""Annotation of a Service behind a front door: a path, below what the route rewrites to, that answers 200 when a request would
be answered. Without it, failed calls alone take an endpoint out."""
HOST_PORT: Final = "modelplane.ai/host-port"
"""Annotation of a Pod that shares its host's address: ``host:port`` where its container port is reached."""

DRAIN_TAINT: Final = "modelplane.ai/drain"
"""Key of the NoExecute taint that the drain verb sets."""

LEADER_ADDRESS_VARIABLE: Final = "MODELPLANE_LEADER_ADDRESS"
RANK_VARIABLE: Final = "MODELPLANE_RANK"
SERVED_MODEL_VARIABLE: Final = "MODELPLANE_SERVED_MODEL_NAME"

# --- syntax -----------------------------------------------------------------------------------------------------

KEY_PATTERN: Final = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
)
"""A label or annotation key: an optional DNS prefix and a slash, then a name of at most 63 characters."""

VALUE_PATTERN: Final = r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$"
"""A label value: empty, or letters, digits, ``-``, ``_``, ``.`` that begin and end with a letter or digit."""


def _cel(pattern: str) -> str:
    """A pattern as a CEL string literal, which wants its backslashes doubled."""
    return '"' + pattern.replace("\\", "\\\\") + '"'


def _reserved(field: str, what: str) -> Rule:
    return Rule(
        rule=f"!has(self.{field}) || self.{field}.all(k, !k.startsWith('{PREFIX}'))",
        message=f"{what} keys may not start with {PREFIX}: the prefix is reserved; choose a prefix of your own",
        field=f".{field}",
    )


def _keys(field: str, what: str) -> Rule:
    return Rule(
        rule=f"!has(self.{field}) || self.{field}.all(k, k.matches({_cel(KEY_PATTERN)}))",
        message=f"{what} keys must be [prefix/]name: a DNS subdomain as prefix, and a name of at most 63 letters, digits, "
        "'-', '_' and '.' that begins and ends with a letter or digit",
        field=f".{field}",
    )


def _prefixes(field: str, what: str) -> Rule:
    return Rule(
        rule=f"!has(self.{field}) || self.{field}.all(k, k.split('/')[0].size() <= 253)",
        message=f"the prefix of {what} keys must be no more than 253 characters",
        field=f".{field}",
    )


def _values(field: str, what: str) -> Rule:
    return Rule(
        rule=f"!has(self.{field}) || self.{field}.all(k, self.{field}[k].matches({_cel(VALUE_PATTERN)}))",
        message=f"{what} values must be empty, or letters, digits, '-', '_' and '.' that begin and end with a letter or digit",
        field=f".{field}",
    )


LABEL_RULES: Final = (
    _reserved("labels", "label"),
    _keys("labels", "label"),
    _prefixes("labels", "label"),
    _values("labels", "label"),
)
"""For an object with a ``labels`` map that is propagated to objects of ours."""

ANNOTATION_RULES: Final = (
    _keys("annotations", "annotation"),
    _prefixes("annotations", "annotation"),
)
"""For an object with an ``annotations`` map that is propagated to pods."""

LabelValue: TypeAlias = Annotated[str, text(most=63)]
MatchLabels: TypeAlias = Annotated[Mapping[str, LabelValue], entries(1, 16)]
"""A bounded selector of the current shapes."""
