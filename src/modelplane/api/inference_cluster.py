"""InferenceCluster: a Kubernetes cluster that engines run on, made by us in a cloud or brought along (`Existing`).

The types keep one discriminated union as the API has it: `source` names the sibling block. `status.gpuPools` is the only thing
that placement reads; the InferenceCluster composer is its only writer.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Final

from modelplane.api.bare_metal import VultrBaremetalSettings
from modelplane.api.children import Children
from modelplane.api.cloud import Name, Source, Stack, block_for
from modelplane.api.cloud_settings import AksSettings, EksSettings, GkeSettings, NebiusSettings, VultrSettings
from modelplane.api.devices import Device
from modelplane.api.labels import PREFIX, LabelValue
from modelplane.api.meta import GROUP, GVK, VERSION, Condition, Resource
from modelplane.api.shape import (
    IMMUTABLE,
    Column,
    Definition,
    Owner,
    Root,
    Rule,
    Shape,
    atomic,
    entries,
    formatted,
    keyed,
    number,
    read,
    ruled,
    text,
)

KIND: Final = GVK(GROUP, VERSION, "InferenceCluster")
RESOURCE: Final = Resource(KIND, "inferenceclusters", False)


class ConditionType(StrEnum):
    """Condition types of an InferenceCluster."""

    CLUSTER_READY = "ClusterReady"
    """The Kubernetes cluster runs and its node pools can be used."""
    BACKEND_READY = "BackendReady"
    """The serving stack on the cluster is healthy."""
    REACHABLE = "Reachable"
    """The cluster's API answers with the credentials that we hold. While it is not True, nothing on the cluster changes."""
    POOLS_LABELLED = "PoolsLabelled"
    """Every pool of the spec has the nodes that it declares, with the label modelplane.ai/pool."""
    DEVICES_PUBLISHED = "DevicesPublished"
    """The cluster has the DeviceClasses that the pools' classes name, and drivers that publish such devices."""
    CACHE_STORAGE_READY = "CacheStorageReady"
    """The storage class for model caches exists."""


class Reason(StrEnum):
    """Condition reasons of an InferenceCluster."""

    CLUSTER_RUNNING = "ClusterRunning"
    """The cluster can be used."""
    PROVISIONING = "Provisioning"
    """The cluster is being made."""
    WAITING_FOR_CLASSES = "WaitingForClasses"
    """An InferenceClass that a pool names does not exist; create it or correct className."""
    INVALID_NODE_POOL = "InvalidNodePool"
    """A pool's class has no provisioning block for this source; add one or choose another class."""
    BACKEND_HEALTHY = "BackendHealthy"
    """Cluster and serving stack are ready."""
    INSTALLING = "Installing"
    """The cluster is ready and its serving stack is not yet."""
    WAITING_FOR_CLUSTER = "WaitingForCluster"
    """The cluster is not ready."""
    ANSWERING = "Answering"
    """The API answers."""
    UNREACHABLE = "Unreachable"
    """The API does not answer; check the network and the server address in the kubeconfig."""
    UNAUTHORIZED = "Unauthorized"
    """The API refuses our credentials; renew the kubeconfig Secret."""
    CREDENTIAL_MISSING = "CredentialMissing"
    """The kubeconfig Secret or its key does not exist; create it in modelplane-system."""
    CREDENTIAL_REFUSED = "CredentialRefused"
    """The kubeconfig uses exec, file paths or insecure-skip-tls-verify, or cannot be read; write a self-contained one."""
    OTHER_CONTROL_PLANE = "ManagedByAnotherControlPlane"
    """Another control plane manages the cluster; remove it there first."""
    KIND_MISSING = "KindMissing"
    """The cluster does not serve an API that is needed; the message names it."""
    FORBIDDEN = "Forbidden"
    """The credentials may not read what is needed; grant it to the identity of the kubeconfig."""
    UNSUPPORTED = "Unsupported"
    """The API takes it and this version does not carry it out; the message says what to use instead."""
    LABELLED = "Labelled"
    """Nodes with the label were found for every pool."""
    LABEL_MISSING = "LabelMissing"
    """A pool has no node with its label; label the nodes modelplane.ai/pool=POOL."""
    NODES_MISSING = "NodesMissing"
    """A pool has fewer nodes with its label than it declares; add nodes or lower nodeCount."""
    PUBLISHED = "Published"
    """The devices are published."""
    DEVICES_MISSING = "DevicesMissing"
    """A DeviceClass is missing or no driver publishes its devices; install the driver."""
    STORAGE_READY = "StorageReady"
    """The storage class exists."""
    STORAGE_CLASS_MISSING = "StorageClassMissing"
    """The storage class does not exist on the cluster; create it or change cache.storageClassName."""
    NO_STORAGE = "NoStorage"
    """The cluster offers no cache storage; ModelCaches pass it by."""


# --- spec -------------------------------------------------------------------------------------------------------


class KubeconfigRef(Shape, frozen=True, kw_only=True):
    """A kubeconfig Secret in modelplane-system."""

    name: Name
    """Name of the Secret."""
    key: Name = "kubeconfig"
    """Key in the Secret."""


class IdentityType(StrEnum):
    """A cloud identity that is layered over a kubeconfig."""

    GOOGLE = "GoogleApplicationCredentials"
    AWS = "AWSWebIdentityCredentials"
    NEBIUS = "NebiusServiceAccountCredentials"


class IdentityRef(Shape, frozen=True, kw_only=True):
    """A cloud credential that is layered over the kubeconfig."""

    name: Name
    """Name of the Secret."""
    key: Name = "private_key"
    """Key in the Secret."""
    type: IdentityType = IdentityType.GOOGLE
    """The identity to act as; has to fit the cloud that the cluster is on."""


class CacheStorage(Shape, frozen=True, kw_only=True):
    """Storage for model caches."""

    storage_class_name: Name | None = None
    """A ReadWriteMany storage class with dynamic provisioning, made by the cluster's administrator."""


class ExistingCluster(Shape, frozen=True, kw_only=True):
    """A cluster that somebody else made. Its serving stack is managed, the cluster itself is not."""

    secret_ref: KubeconfigRef
    """The kubeconfig Secret, in namespace modelplane-system."""
    identity_secret_ref: IdentityRef | None = None
    """A cloud credential that is layered over the kubeconfig."""
    cache: CacheStorage | None = None
    """Storage for model caches."""


class ClusterSource(Shape, frozen=True, kw_only=True):
    """Where the cluster comes from."""

    source: Source
    """Origin; the block of the same name must be set."""
    existing: ExistingCluster | None = None
    """A cluster that somebody else made."""
    gke: GkeSettings | None = None
    """Settings for Google Kubernetes Engine."""
    eks: EksSettings | None = None
    """Settings for Amazon EKS."""
    aks: AksSettings | None = None
    """Settings for Azure Kubernetes Service."""
    nebius: NebiusSettings | None = None
    """Settings for Nebius Managed Kubernetes."""
    vultr: VultrSettings | None = None
    """Settings for Vultr Kubernetes Engine."""
    vultr_baremetal: VultrBaremetalSettings | None = None
    """Settings for bare-metal servers on Vultr."""

    RULES = (
        block_for("source", "Existing", "existing"),
        block_for("source", "GKE", "gke"),
        block_for("source", "EKS", "eks"),
        block_for("source", "AKS", "aks"),
        block_for("source", "Nebius", "nebius"),
        block_for("source", "Vultr", "vultr"),
        block_for("source", "VultrBaremetal", "vultrBaremetal"),
    )


class PlacementMetadata(Shape, frozen=True, kw_only=True):
    """Metadata that placed replicas receive."""

    labels: Annotated[
        Mapping[str, LabelValue],
        entries(most=16),
        ruled(
            Rule(
                rule=f"self.all(k, !k.startsWith('{PREFIX}'))",
                message=f"label keys may not start with {PREFIX}: the prefix is reserved; choose a prefix of your own",
            )
        ),
    ] = {}
    """Labels for every replica and endpoint on this cluster, such as its region."""


class ClusterPlacement(Shape, frozen=True, kw_only=True):
    """Facts about where the cluster is."""

    metadata: PlacementMetadata | None = None
    """Metadata that replicas and endpoints on this cluster receive."""


class TaintEffect(StrEnum):
    """What a taint does to replicas that do not tolerate it."""

    NO_SCHEDULE = "NoSchedule"
    """No new replica comes."""
    NO_EXECUTE = "NoExecute"
    """No new replica comes and those here move away."""


class Taint(Shape, frozen=True, kw_only=True):
    """Repels replicas whose deployment does not tolerate it."""

    key: Annotated[str, text(1)]
    """Taint key, such as modelplane.ai/maintenance."""
    value: str = ""
    """Taint value."""
    effect: TaintEffect
    """NoSchedule keeps new replicas away; NoExecute also moves those that are here. Removing a taint moves nothing back."""


class CapacityBlock(Shape, frozen=True, kw_only=True):
    """ML capacity that was bought from AWS."""

    capacity_reservation_id: Annotated[str, text(4, 64, pattern="^cr-[0-9a-f]+$")]
    """AWS reservation id."""


class FabricType(StrEnum):
    """Network between the nodes of a pool."""

    NONE = "None"
    EFA = "EFA"
    INFINIBAND = "InfiniBand"


class InfiniBand(Shape, frozen=True, kw_only=True):
    """An InfiniBand network on Nebius."""

    fabric: Annotated[str, text(1, 63)]
    """Id of a physical fabric that exists, such as fabric-2."""


class Fabric(Shape, frozen=True, kw_only=True):
    """The RDMA network between the nodes of a pool."""

    type: FabricType = FabricType.NONE
    """EFA is for EKS; InfiniBand is for Nebius and AKS."""
    infiniband: InfiniBand | None = None
    """Detail for Nebius; AKS needs none."""

    RULES = (
        Rule(
            rule="!has(self.infiniband) || self.type == 'InfiniBand'",
            message="remove infiniband or set type: InfiniBand: the block belongs to that type",
        ),
    )


class NodePool(Shape, frozen=True, kw_only=True):
    """GPU nodes of one class."""

    name: Annotated[str, text(most=40)]
    """Pool name, and the value of the node label modelplane.ai/pool."""
    class_name: Name
    """The InferenceClass that describes the nodes."""
    node_count: Annotated[int, number(0)] = 1
    """Number of nodes; the initial number when the pool grows and shrinks."""
    min_node_count: Annotated[int, number(0)] | None = None
    """Fewest nodes when the pool grows and shrinks."""
    max_node_count: Annotated[int, number(1)] | None = None
    """Most nodes; a pool without it has a fixed size."""
    zones: tuple[str, ...] = ()
    """Zones that the pool may use. A GPU pool on GKE or EKS needs at least one."""
    capacity_block: CapacityBlock | None = None
    """EKS alone: a purchased reservation; zones and nodeCount have to agree with it."""
    fabric: Fabric | None = None
    """RDMA network between the nodes; plain TCP when absent."""


class Spec(Shape, frozen=True, kw_only=True):
    """The cluster that is wanted."""

    cluster: ClusterSource
    """Where the cluster comes from."""
    stack: Annotated[Stack, ruled(IMMUTABLE)] = Stack.STANDARD
    """Serving layer. Cannot be changed; recreate the cluster for another one."""
    placement: ClusterPlacement | None = None
    """Facts about where the cluster is."""
    taints: Annotated[tuple[Taint, ...], keyed("key", "effect")] = ()
    """Repel replicas whose deployment does not tolerate them."""
    node_pools: Annotated[tuple[NodePool, ...], keyed("name", least=1, most=8)] = ()
    """GPU pools, in the order in which they are preferred. System pools are added and never listed."""

    RULES = (
        Rule(
            rule="self.cluster.source != 'Nebius' || !has(self.nodePools) || self.nodePools.all(p, !has(p.fabric) || "
            "p.fabric.type != 'InfiniBand' || has(p.fabric.infiniband))",
            message="set fabric.infiniband on every InfiniBand pool: Nebius needs the id of the physical fabric",
            field=".nodePools",
        ),
        Rule(
            rule="self.cluster.source != 'VultrBaremetal' || !has(self.nodePools) || "
            "self.nodePools.all(p, !has(p.maxNodeCount))",
            message="remove maxNodeCount from every pool: pools of source VultrBaremetal have a fixed size",
            field=".nodePools",
        ),
        Rule(
            rule="self.cluster.source != 'VultrBaremetal' || self.stack == 'Standard'",
            message="set stack: Standard, the only one for source VultrBaremetal",
            field=".stack",
        ),
    )

    @property
    def placement_labels(self) -> Mapping[str, str]:
        """Labels that replicas and endpoints on this cluster receive."""
        return self.placement.metadata.labels if self.placement and self.placement.metadata else {}


# --- status -----------------------------------------------------------------------------------------------------


class ProviderConfigRef(Shape, frozen=True, kw_only=True):
    """How others reach this cluster."""

    name: str = ""
    """Name of the cluster-scoped provider configuration for the remote API."""


class GatewayStatus(Shape, frozen=True, kw_only=True):
    """The cluster's own gateway."""

    address: str = ""
    """Address of the gateway: a host, or host:port where the port is not the scheme's own."""
    hostname: str = ""
    """Internal name that InferenceGateways use for this gateway; appears once mutual TLS works both ways."""
    ca_certificate: Annotated[str, text(most=16384)] = ""
    """PEM of the authority that signed the gateway's serving certificate."""


class CacheStatus(Shape, frozen=True, kw_only=True):
    """Cache storage in effect."""

    storage_class_name: Annotated[str, text(most=253)] = ""
    """Storage class of model caches; the cluster takes no cache while it is unset."""


class CapacitySource(StrEnum):
    """Where the figures of a pool come from."""

    DECLARED = "Declared"
    """From the spec alone: nothing on the cluster was asked."""
    OBSERVED = "Observed"
    """From the cluster's agent."""


class FreeBucket(Shape, frozen=True, kw_only=True):
    """Nodes that have exactly these devices free."""

    free: Annotated[Mapping[str, Annotated[int, number(0)]], entries(most=16)] = {}
    """Free devices by DeviceClass."""
    nodes: Annotated[int, number(0)]
    """Schedulable nodes in the bucket."""


class PoolCapacity(Shape, frozen=True, kw_only=True):
    """What a pool has to give, now and when it grows."""

    source: CapacitySource
    """Declared by the spec, or observed by the cluster's agent."""
    observed_time: Annotated[str, formatted("date-time")] | None = None
    """When it was observed."""
    free_nodes: Annotated[int, number(0)] | None = None
    """Nodes with nothing of ours on them."""
    grow_nodes: Annotated[int, number(0)] | None = None
    """Nodes by which the pool could grow."""
    nodes_by_free_devices: Annotated[tuple[FreeBucket, ...], atomic(most=256)] = ()
    """Schedulable nodes, counted by the exact combination of devices that they have free."""


class GpuPool(Shape, frozen=True, kw_only=True):
    """A pool that placement may use: the class's devices joined with node counts."""

    name: str
    """Name of the pool in the spec."""
    nodes: int | None = None
    """maxNodeCount where it is set, else nodeCount."""
    devices: Annotated[tuple[Device, ...], keyed("name", most=16)] = ()
    """The devices of the class, copied."""
    capacity: PoolCapacity | None = None
    """What is free now, and by how much the pool could grow."""


class Status(Shape, frozen=True, kw_only=True):
    """What was last seen."""

    provider_config_ref: ProviderConfigRef | None = None
    """How others reach this cluster."""
    gateway: GatewayStatus = GatewayStatus()
    """The cluster's own gateway."""
    cache: CacheStatus = CacheStatus()
    """Cache storage in effect."""
    gpu_pools: Annotated[tuple[GpuPool, ...], keyed("name", most=8)] = ()
    """Pools that placement may use."""
    namespace: str = ""
    """Namespace of the internal children."""
    children: Children = ()
    """Objects of ours on clusters, written down before they are created."""
    conditions: Annotated[tuple[Condition, ...], keyed("type")] = ()
    """ClusterReady, BackendReady, Reachable, PoolsLabelled, DevicesPublished, CacheStorageReady, Ready and Synced."""


class InferenceCluster(Root, frozen=True, kw_only=True):
    """A Kubernetes cluster that engines run on. All GPU work on it is assumed to be ours."""

    spec: Spec
    """The cluster that is wanted."""
    status: Status = Status()
    """What was last seen."""


DEFINITION: Final = Definition(
    resource=RESOURCE,
    type=InferenceCluster,
    owner=Owner.PLATFORM,
    conditions=ConditionType,
    reasons=Reason,
    short_names=("ic",),
    columns=(
        Column(name="SOURCE", path=".spec.cluster.source"),
        Column(name="GATEWAY", path=".status.gateway.address"),
    ),
)


def parse(obj: Mapping[str, Any]) -> InferenceCluster:
    """A stored cluster as its type. Raises InvalidObject."""
    return read(InferenceCluster, obj)
