"""ModelReplica: one replica of a deployment, placed. Composed alone: the engines with pool and device requests filled in."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Final

from modelplane.api.children import Children
from modelplane.api.engines import SERVING_RULES, PlacedEngine, Serving, ServingMode
from modelplane.api.meta import GROUP, GVK, VERSION, Condition, Resource
from modelplane.api.model_deployment import CacheRef
from modelplane.api.shape import Column, Definition, Owner, Root, Shape, keyed, listed, read, text

KIND: Final = GVK(GROUP, VERSION, "ModelReplica")
RESOURCE: Final = Resource(KIND, "modelreplicas", True)


class ConditionType(StrEnum):
    """Condition types of a ModelReplica."""

    MODEL_ACCEPTED = "ModelAccepted"
    """Every workload of the replica is on its cluster."""
    MODEL_READY = "ModelReady"
    """Every workload is available."""
    ENDPOINT_ANSWERING = "EndpointAnswering"
    """The replica answered /v1/models with at least one model. Until then it gets no endpoint."""


class Reason(StrEnum):
    """Condition reasons of a ModelReplica."""

    WAITING_FOR_CLUSTER = "WaitingForCluster"
    """The InferenceCluster is missing or cannot be used yet."""
    DEPLOYING = "Deploying"
    """Not every workload was seen on the cluster."""
    ACCEPTED = "Accepted"
    """Every workload was seen on the cluster."""
    WAITING_FOR_MODEL = "WaitingForModel"
    """The workloads are not accepted yet."""
    MODEL_STARTING = "ModelStarting"
    """Not every workload is available."""
    SERVING = "Serving"
    """Every workload is available."""
    ANSWERING = "Answering"
    """/v1/models named at least one model."""
    NO_MODELS = "NoModels"
    """/v1/models answered and named no model; check the engine's arguments."""
    NO_ANSWER = "NoAnswer"
    """/v1/models did not answer with success."""
    NOT_PROBED = "NotProbed"
    """Nobody has asked yet: the replica is not ready or its cluster has no gateway address."""
    UNREACHABLE = "Unreachable"
    """The cluster's API does not answer; the last observation stays."""
    CREDENTIAL_MISSING = "CredentialMissing"
    """The cluster's kubeconfig Secret is missing; the last observation stays."""
    UNAUTHORIZED = "Unauthorized"
    """The cluster's API refuses our credentials; the last observation stays."""
    INVALID_TEMPLATE = "InvalidTemplate"
    """A member has no template.spec, so no pod can be made of it; complete the deployment."""
    SECRET_MISSING = "SecretMissing"
    """A Secret or ConfigMap that a pod template names does not exist in the deployment's namespace; create it."""
    KIND_MISSING = "KindMissing"
    """The cluster lacks an API that the workload needs; the message names it."""


class Spec(Shape, frozen=True, kw_only=True):
    """A replica and its place."""

    cluster_name: Annotated[str, text(1)]
    """The InferenceCluster that the replica is on, for all its life."""
    model_cache_ref: CacheRef | None = None
    """Copied from the deployment."""
    serving: Serving | None = None
    """Copied from the deployment."""
    engines: Annotated[tuple[PlacedEngine, ...], keyed("name", least=1, most=8)]
    """The deployment's engines with their places filled in."""

    RULES = SERVING_RULES

    @property
    def mode(self) -> ServingMode:
        return self.serving.mode if self.serving else ServingMode.UNIFIED


class Status(Shape, frozen=True, kw_only=True):
    """What was last seen."""

    models: Annotated[tuple[str, ...], listed(most=64)] = ()
    """Names of models that the replica answered with."""
    children: Children = ()
    """Objects of ours on the cluster, written down before they are created."""
    conditions: Annotated[tuple[Condition, ...], keyed("type")] = ()
    """ModelAccepted, ModelReady, EndpointAnswering, Ready and Synced."""


class ModelReplica(Root, frozen=True, kw_only=True):
    """One replica of a ModelDeployment, on one cluster. Composed; do not write it yourself."""

    spec: Spec
    """A replica and its place."""
    status: Status = Status()
    """What was last seen."""


DEFINITION: Final = Definition(
    resource=RESOURCE,
    type=ModelReplica,
    owner=Owner.COMPOSED,
    conditions=ConditionType,
    reasons=Reason,
    short_names=("mr",),
    columns=(Column(name="CLUSTER", path=".spec.clusterName"),),
)


def parse(obj: Mapping[str, Any]) -> ModelReplica:
    """A stored replica as its type. Raises InvalidObject."""
    return read(ModelReplica, obj)
