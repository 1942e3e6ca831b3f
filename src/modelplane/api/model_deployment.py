"""ModelDeployment: a model that a developer wants served, in so many replicas, somewhere in the fleet."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Final

from modelplane.api.children import Children
from modelplane.api.engines import SERVING_RULES, Engine, RequiredServing, ServingMode
from modelplane.api.meta import GROUP, GVK, VERSION, Condition, Resource
from modelplane.api.pods import TemplateMetadata
from modelplane.api.shape import Column, Definition, Owner, Root, Rule, Scale, Shape, atomic, keyed, number, read, text

KIND: Final = GVK(GROUP, VERSION, "ModelDeployment")
RESOURCE: Final = Resource(KIND, "modeldeployments", True)


class ConditionType(StrEnum):
    """Condition types of a ModelDeployment."""

    REPLICAS_SCHEDULED = "ReplicasScheduled"
    """Every replica that is wanted has a place. Some placed and some not is False."""
    REPLICAS_READY = "ReplicasReady"
    """Every replica that is placed serves."""
    MODEL_CACHE_RESOLVED = "ModelCacheResolved"
    """The ModelCache that the deployment names was read. Present with modelCacheRef alone."""


class Reason(StrEnum):
    """Condition reasons of a ModelDeployment."""

    NO_CLUSTERS = "NoClusters"
    """No InferenceCluster matches the selectors; change clusterSelector or label a cluster."""
    INVALID_NODE_SELECTOR = "InvalidNodeSelector"
    """A CEL selector does not compile; the message has the position. Nothing is placed until it is corrected."""
    INSUFFICIENT_CAPACITY = "InsufficientCapacity"
    """Nothing could be placed; the message names each candidate cluster and what it lacks."""
    NO_CACHE_STORAGE = "NoCacheStorage"
    """The clusters that match offer no storage for the ModelCache."""
    PARTIALLY_SCHEDULED = "PartiallyScheduled"
    """Some replicas have no place, or no room for the size that is asked for now; the message says why."""
    SCHEDULING = "Scheduling"
    """Placed, and not observed yet."""
    REPLICAS_CREATED = "ReplicasCreated"
    """All replicas are placed and observed."""
    SCALED_TO_ZERO = "ScaledToZero"
    """No replica is wanted, and none is left."""
    NO_REPLICAS_SCHEDULED = "NoReplicasScheduled"
    """Nothing is placed."""
    MODEL_STARTING = "ModelStarting"
    """Some placed replicas do not serve yet."""
    ALL_REPLICAS_READY = "AllReplicasReady"
    """Every placed replica serves."""
    MODEL_CACHE_RESOLVED = "ModelCacheResolved"
    """The cache was found."""
    MODEL_CACHE_UNRESOLVED = "ModelCacheUnresolved"
    """The cache was not read yet; new placements wait, replicas stay."""
    MODEL_CACHE_NOT_FOUND = "ModelCacheNotFound"
    """There is no such ModelCache in the namespace; create it or correct modelCacheRef."""


class ClusterSelector(Shape, frozen=True, kw_only=True):
    """InferenceClusters by label."""

    match_labels: Mapping[str, str] = {}
    """Labels that all have to match."""


class CacheRef(Shape, frozen=True, kw_only=True):
    """A ModelCache in the same namespace."""

    name: Annotated[str, text(1)]
    """Name of the ModelCache."""


class TolerationOperator(StrEnum):
    """How a toleration compares."""

    EXISTS = "Exists"
    """The key is enough."""
    EQUAL = "Equal"
    """Key and value have to be the taint's."""


class TolerationEffect(StrEnum):
    """Effect of the taints that a toleration is for."""

    NO_SCHEDULE = "NoSchedule"
    NO_EXECUTE = "NoExecute"


class Toleration(Shape, frozen=True, kw_only=True):
    """Lets replicas onto, and keeps them on, clusters with a matching taint."""

    key: str = ""
    """Taint key; empty with operator Exists matches every taint."""
    operator: TolerationOperator = TolerationOperator.EQUAL
    """Exists ignores the value, Equal compares it."""
    value: str = ""
    """Taint value."""
    effect: TolerationEffect | None = None
    """Taint effect; any when unset."""

    RULES = (
        Rule(
            rule="self.operator != 'Equal' || (has(self.key) && self.key != '')",
            message="set key: a toleration with operator Equal names the taint (operator Exists without key matches all)",
        ),
        Rule(
            rule="self.operator != 'Exists' || !has(self.value) || self.value == ''",
            message="remove value: a toleration with operator Exists takes none",
        ),
    )


class ReplicaTemplateSpec(Shape, frozen=True, kw_only=True):
    """What each replica is."""

    cluster_selector: ClusterSelector | None = None
    """InferenceClusters that may be used; all when absent."""
    model_cache_ref: CacheRef | None = None
    """A ModelCache in this namespace, mounted at /mnt/models. Gangs need one in practice."""
    serving: RequiredServing | None = None
    """How the engines are fronted; Unified when absent."""
    tolerations: Annotated[tuple[Toleration, ...], atomic(most=1000)] = ()
    """Taints of clusters that replicas put up with."""
    engines: Annotated[tuple[Engine, ...], keyed("name", least=1, most=8)]
    """Serving units of one replica, all on one cluster."""

    RULES = SERVING_RULES

    @property
    def mode(self) -> ServingMode:
        return self.serving.mode if self.serving else ServingMode.UNIFIED


class ReplicaTemplate(Shape, frozen=True, kw_only=True):
    """What each replica looks like."""

    metadata: TemplateMetadata = TemplateMetadata()
    """Metadata of composed objects."""
    spec: ReplicaTemplateSpec
    """What each replica is."""


class Spec(Shape, frozen=True, kw_only=True):
    """The deployment that is wanted."""

    replicas: Annotated[int, number(0, 1000)]
    """ModelReplicas that are wanted: the one knob for scaling."""
    template: ReplicaTemplate
    """What each replica looks like."""


class ReplicaCounts(Shape, frozen=True, kw_only=True):
    """Numbers of replicas."""

    total: int | None = None
    """Replicas that have a place."""
    ready: int | None = None
    """Replicas that serve."""


class Placement(Shape, frozen=True, kw_only=True):
    """Why a replica is where it is, or why a cluster took none."""

    cluster: str = ""
    """The InferenceCluster."""
    replica: str = ""
    """The ModelReplica that is there; empty for a refusal."""
    code: str
    """Reason code of the verdict."""
    message: str = ""
    """The figures behind it, and the smallest change that would help."""


class Status(Shape, frozen=True, kw_only=True):
    """What was last seen."""

    replicas: ReplicaCounts = ReplicaCounts()
    """Numbers of replicas."""
    label_selector: str = ""
    """Selector of the deployment's replicas as text, for autoscalers."""
    placement: Annotated[tuple[Placement, ...], atomic()] = ()
    """The verdicts of the last placement: one per replica that is placed and per cluster that refused."""
    children: Children = ()
    """Objects of ours on clusters, written down before they are created."""
    conditions: Annotated[tuple[Condition, ...], keyed("type")] = ()
    """ReplicasScheduled, ReplicasReady, ModelCacheResolved, Ready and Synced."""


class ModelDeployment(Root, frozen=True, kw_only=True):
    """A model that is served by replicas somewhere in the fleet."""

    spec: Spec
    """The deployment that is wanted."""
    status: Status = Status()
    """What was last seen."""


DEFINITION: Final = Definition(
    resource=RESOURCE,
    type=ModelDeployment,
    owner=Owner.DEVELOPER,
    conditions=ConditionType,
    reasons=Reason,
    short_names=("md",),
    columns=(
        Column(name="REPLICAS", path=".status.replicas.ready"),
        Column(name="SCHEDULED", path=".status.replicas.total", type="integer", priority=1),
        Column(name="WANTED", path=".spec.replicas", type="integer", priority=1),
    ),
    scale=Scale(spec=".spec.replicas", status=".status.replicas.total", selector=".status.labelSelector"),
)


def parse(obj: Mapping[str, Any]) -> ModelDeployment:
    """A stored deployment as its type. Raises InvalidObject."""
    return read(ModelDeployment, obj)
