"""ModelCache: model weights that are staged on clusters before an engine asks for them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Final

from msgspec import field

from modelplane.api.children import Children
from modelplane.api.cloud import block_for
from modelplane.api.meta import GROUP, GVK, VERSION, Condition, Resource
from modelplane.api.model_deployment import ClusterSelector
from modelplane.api.shape import Column, Definition, Owner, Root, Shape, keyed, number, read, text

KIND: Final = GVK(GROUP, VERSION, "ModelCache")
RESOURCE: Final = Resource(KIND, "modelcaches", True)


class ConditionType(StrEnum):
    """Condition types of a ModelCache."""

    CLUSTERS_MATCHED = "ClustersMatched"
    """At least one cluster takes the cache: its labels match and it offers cache storage."""
    ARTIFACT_READY = "ArtifactReady"
    """Every matched cluster has the weights."""


class Reason(StrEnum):
    """Condition reasons of a ModelCache."""

    MATCHED = "Matched"
    """At least one cluster takes the cache."""
    NO_CLUSTERS = "NoClusters"
    """No cluster takes the cache; change clusterSelector or give a cluster cache storage."""
    AUTH_SECRET_MISSING = "AuthSecretMissing"
    """The token's Secret or its key is missing or empty; create it beside the cache."""
    FAILED = "Failed"
    """The download failed on some cluster; the message names it."""
    STAGED = "Staged"
    """Every matched cluster has the weights."""
    PARTIAL = "Partial"
    """Some clusters have the weights."""
    HYDRATING = "Hydrating"
    """No cluster has the weights yet."""


class SourceKind(StrEnum):
    """Where weights come from."""

    HUGGING_FACE = "HuggingFace"


class TokenRef(Shape, frozen=True, kw_only=True):
    """A token's Secret beside the ModelCache."""

    name: Annotated[str, text(1)]
    """Name of the Secret."""
    key: str = "HF_TOKEN"
    """Key in the Secret."""


class HuggingFace(Shape, frozen=True, kw_only=True):
    """A repository on Hugging Face."""

    repo: Annotated[str, text(1)]
    """Repository id, such as meta-llama/Llama-3.1-8B."""
    revision: str = ""
    """Branch, tag or commit; the repository's default branch when unset."""
    auth_secret: TokenRef | None = None
    """The token's Secret beside the ModelCache; copied to clusters while they download."""
    size_gib: Annotated[int, number(1, 100000)] = field(name="sizeGiB")
    """Size of the volume on every matched cluster, in GiB."""


class Spec(Shape, frozen=True, kw_only=True):
    """The weights that are wanted."""

    source: SourceKind
    """Where the weights come from; names the block that must be set."""
    hugging_face: HuggingFace | None = None
    """A repository on Hugging Face."""
    cluster_selector: ClusterSelector | None = None
    """InferenceClusters that stage the weights; all when absent."""

    RULES = (block_for("source", "HuggingFace", "huggingFace"),)


class Summary(Shape, frozen=True, kw_only=True):
    """All clusters in one line."""

    ready: str = ""
    """Clusters that have the weights, of those that match: 2/3."""


class Phase(StrEnum):
    """How far a cluster is."""

    PENDING = "Pending"
    """The volume is not bound."""
    HYDRATING = "Hydrating"
    """The volume is bound and the download is not finished."""
    READY = "Ready"
    """The weights of this source are there. Stays so when the download's Job is cleaned up."""
    FAILED = "Failed"
    """The download failed."""


class StagedCluster(Shape, frozen=True, kw_only=True):
    """The cache on one cluster."""

    name: str
    """The InferenceCluster."""
    phase: Phase | None = None
    """How far the cluster is."""
    message: str = ""
    """Detail."""
    source_hash: str = ""
    """Hash of the source whose weights are there; another source is downloaded again."""


class Status(Shape, frozen=True, kw_only=True):
    """What was last seen."""

    summary: Summary = Summary()
    """All clusters in one line."""
    clusters: tuple[StagedCluster, ...] = ()
    """One entry per matched cluster."""
    children: Children = ()
    """Objects of ours on clusters, written down before they are created."""
    conditions: Annotated[tuple[Condition, ...], keyed("type")] = ()
    """ClustersMatched, ArtifactReady, Ready and Synced."""


class ModelCache(Root, frozen=True, kw_only=True):
    """Model weights that are staged on clusters before an engine asks for them."""

    spec: Spec
    """The weights that are wanted."""
    status: Status = Status()
    """What was last seen."""


DEFINITION: Final = Definition(
    resource=RESOURCE,
    type=ModelCache,
    owner=Owner.DEVELOPER,
    conditions=ConditionType,
    reasons=Reason,
    short_names=("mc",),
    columns=(
        Column(name="SOURCE", path=".spec.huggingFace.repo"),
        Column(name="READY", path=".status.summary.ready"),
    ),
)


def parse(obj: Mapping[str, Any]) -> ModelCache:
    """A stored cache as its type. Raises InvalidObject."""
    return read(ModelCache, obj)
