"""InferenceClass: hardware as data. What a node has (`devices`) and, optionally, how a cloud builds such a node.

Platform teams write it, nobody composes it, and it composes nothing. InferenceClusters name it per node pool.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Final, TypeAlias

from modelplane.api.cloud import Accelerator, Provider, Word, block_for
from modelplane.api.devices import DeclaredDevice
from modelplane.api.meta import GROUP, GVK, VERSION, Condition, Resource
from modelplane.api.shape import Definition, Owner, Root, Shape, keyed, number, read, text

KIND: Final = GVK(GROUP, VERSION, "InferenceClass")
RESOURCE: Final = Resource(KIND, "inferenceclasses", False)


class ConditionType(StrEnum):
    """Condition types of an InferenceClass."""

    ACCEPTED = "Accepted"
    """The class can be named by clusters. True at once: a class depends on nothing."""


class Reason(StrEnum):
    """Condition reasons of an InferenceClass."""

    AVAILABLE = "Available"
    """The class is stored and can be used."""


class GkeRecipe(Shape, frozen=True, kw_only=True):
    """Nodes on Google Cloud."""

    machine_type: Annotated[str, text(1)]
    """GCE machine type, such as g2-standard-8."""
    disk_size_gb: Annotated[int, number(10)] = 100
    """Boot disk in GB."""
    accelerator: Accelerator
    """GPU facts for provisioning alone; placement reads spec.devices."""


class EksRecipe(Shape, frozen=True, kw_only=True):
    """Nodes on AWS."""

    instance_type: Annotated[str, text(1)]
    """EC2 instance type; by itself decides the GPU model."""
    disk_size_gb: Annotated[int, number(10)] = 100
    """Root disk in GB."""
    accelerator: Accelerator
    """GPU facts for provisioning alone; placement reads spec.devices."""


class AksRecipe(Shape, frozen=True, kw_only=True):
    """Nodes on Azure."""

    vm_size: Annotated[str, text(1)]
    """Azure VM size; by itself decides GPU model and count."""
    disk_size_gb: Annotated[int, number(10)] = 100
    """OS disk in GB."""
    accelerator: Accelerator
    """GPU facts for provisioning alone; placement reads spec.devices."""


class NebiusRecipe(Shape, frozen=True, kw_only=True):
    """Nodes on Nebius."""

    platform: Word
    """Compute platform; together with the preset it decides the GPUs."""
    preset: Word
    """Size on that platform: GPUs, vCPUs, memory."""
    disk_size_gb: Annotated[int, number(10)] = 100
    """Boot disk in GB."""
    drivers_preset: Word = "cuda13.0"
    """Driver bundle that the cloud installs; the cloud validates it."""
    accelerator: Accelerator
    """GPU facts for provisioning alone; placement reads spec.devices."""


class VultrRecipe(Shape, frozen=True, kw_only=True):
    """Nodes on Vultr."""

    plan: Word
    """Plan id; by itself decides GPU model and count."""
    accelerator: Accelerator
    """GPU facts for provisioning alone; placement reads spec.devices."""


class VultrBaremetalRecipe(Shape, frozen=True, kw_only=True):
    """Bare-metal servers on Vultr."""

    plan: Word
    """Bare-metal plan; by itself decides GPU model and count."""
    accelerator: Accelerator
    """GPU facts for provisioning alone. The vendor in front of the type, amd- or nvidia-, picks node taint and labels."""


Recipe: TypeAlias = GkeRecipe | EksRecipe | AksRecipe | NebiusRecipe | VultrRecipe | VultrBaremetalRecipe


class Provisioning(Shape, frozen=True, kw_only=True):
    """How a cloud builds nodes like this."""

    provider: Provider
    """The cloud that the recipe is for; the block of the same name must be set."""
    gke: GkeRecipe | None = None
    """Recipe for Google Cloud."""
    eks: EksRecipe | None = None
    """Recipe for AWS."""
    aks: AksRecipe | None = None
    """Recipe for Azure."""
    nebius: NebiusRecipe | None = None
    """Recipe for Nebius."""
    vultr: VultrRecipe | None = None
    """Recipe for Vultr."""
    vultr_baremetal: VultrBaremetalRecipe | None = None
    """Recipe for bare-metal servers on Vultr."""

    RULES = (
        block_for("provider", "GKE", "gke"),
        block_for("provider", "EKS", "eks"),
        block_for("provider", "AKS", "aks"),
        block_for("provider", "Nebius", "nebius"),
        block_for("provider", "Vultr", "vultr"),
        block_for("provider", "VultrBaremetal", "vultrBaremetal"),
    )

    def recipe_for(self, source: str) -> Recipe | None:
        """The recipe for a cluster source, whichever provider is named; None when the class has none for it."""
        recipes: dict[str, Recipe | None] = {
            Provider.GKE: self.gke,
            Provider.EKS: self.eks,
            Provider.AKS: self.aks,
            Provider.NEBIUS: self.nebius,
            Provider.VULTR: self.vultr,
            Provider.VULTR_BAREMETAL: self.vultr_baremetal,
        }
        return recipes.get(source)


class Spec(Shape, frozen=True, kw_only=True):
    """The hardware."""

    description: str = ""
    """Free text for people."""
    provisioning: Provisioning | None = None
    """How a cloud builds nodes like this. Leave it out for hardware that exists already."""
    devices: Annotated[tuple[DeclaredDevice, ...], keyed("name", least=1, most=16)]
    """Kinds of device that one node carries: one entry per kind, not per unit."""


class Status(Shape, frozen=True, kw_only=True):
    """What was last seen."""

    conditions: Annotated[tuple[Condition, ...], keyed("type")] = ()
    """Accepted, Ready and Synced."""


class InferenceClass(Root, frozen=True, kw_only=True):
    """A kind of node: the devices it carries and, for clouds, how it is made."""

    spec: Spec
    """The hardware."""
    status: Status = Status()
    """What was last seen."""


DEFINITION: Final = Definition(
    resource=RESOURCE,
    type=InferenceClass,
    owner=Owner.PLATFORM,
    conditions=ConditionType,
    reasons=Reason,
    short_names=("icl",),
)


def parse(obj: Mapping[str, Any]) -> InferenceClass:
    """A stored class as its type. Raises InvalidObject."""
    return read(InferenceClass, obj)
