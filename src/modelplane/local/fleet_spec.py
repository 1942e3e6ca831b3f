"""The fleet file: which simulated clusters a laptop has, down to the devices of a node.

It stands for the hardware that a platform team really owns, so it is written apart from the API objects that publish it;
the two may disagree, as in life, and then the control plane has to say so. An unknown field is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec
import yaml

from modelplane.errors import PermanentError
from modelplane.plan.quantity import is_quantity

Name = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9]([-a-z0-9]{0,51}[a-z0-9])?$")]
LabelKey = Annotated[
    str, msgspec.Meta(pattern=r"^([a-z0-9][-a-z0-9.]{0,252}/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$")
]
LabelValue = Annotated[str, msgspec.Meta(pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$")]
CONTROL: Final = "modelplane"
"""The context of the control plane in the kubeconfig; no cluster may be called so."""


class FleetError(PermanentError):
    """The fleet file cannot be used; the message names the field."""


class _Spec(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    pass


class Attribute(_Spec, frozen=True, kw_only=True):
    """One typed fact about a device: exactly one of the four, as in DRA's DeviceAttribute."""

    string: str | None = None
    version: str | None = None
    boolean: bool | None = msgspec.field(default=None, name="bool")
    integer: int | None = msgspec.field(default=None, name="int")

    def __post_init__(self) -> None:
        if sum(value is not None for value in (self.string, self.version, self.boolean, self.integer)) != 1:
            raise ValueError("an attribute has exactly one of string, version, bool and int")


class Device(_Spec, frozen=True, kw_only=True):
    """Devices of one kind on every node of a pool, published in a ResourceSlice by ``driver``."""

    driver: Annotated[str, msgspec.Meta(min_length=1, max_length=63)]
    device_class_name: str | None = None
    """DeviceClass made for the driver; the driver's own name when left out."""
    count: Annotated[int, msgspec.Meta(ge=1, le=64)] = 1
    attributes: dict[str, Attribute] = {}
    capacity: dict[str, str] = {}
    """Quantities by name, such as ``memory: 80Gi``."""

    def __post_init__(self) -> None:
        _quantities(self.capacity)

    @property
    def device_class(self) -> str:
        return self.device_class_name or self.driver


class Taint(_Spec, frozen=True, kw_only=True):
    key: LabelKey
    value: LabelValue = ""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] = "NoSchedule"


class Pool(_Spec, frozen=True, kw_only=True):
    """Equal nodes. Every node carries the label ``modelplane.ai/pool`` with the pool's name, unless ``labels`` set it."""

    name: Name
    nodes: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 1
    cpu: str = "32"
    memory: str = "256Gi"
    pods: Annotated[int, msgspec.Meta(ge=1, le=10000)] = 110
    labels: dict[LabelKey, LabelValue] = {}
    taints: tuple[Taint, ...] = ()
    devices: tuple[Device, ...] = ()

    def __post_init__(self) -> None:
        _quantities({"cpu": self.cpu, "memory": self.memory})


class SecretRef(_Spec, frozen=True, kw_only=True):
    """The Secret in ``modelplane-system`` that a fleet hands to the control plane."""

    name: Name
    key: str = "kubeconfig"


class Cluster(_Spec, frozen=True, kw_only=True):
    name: Name
    secret: SecretRef
    pools: tuple[Pool, ...]


class Fleet(_Spec, frozen=True, kw_only=True):
    clusters: tuple[Cluster, ...]
    namespaces: tuple[Name, ...] = ()
    """Made on the control cluster, for the teams that will use it."""

    def cluster(self, name: str) -> Cluster:
        """Raises `FleetError` when the fleet has no such cluster."""
        for cluster in self.clusters:
            if cluster.name == name:
                return cluster
        raise FleetError(f"no cluster {name!r} in the fleet; it has {', '.join(c.name for c in self.clusters)}")


def _quantities(values: Mapping[str, str]) -> None:
    for name, value in values.items():
        if not is_quantity(value):
            raise ValueError(f"{name}: {value!r} is not a quantity such as 80Gi or 500m")


def parse(text: str, where: str = "fleet file") -> Fleet:
    """Raises `FleetError` with the path of the field that is wrong."""
    try:
        fleet = msgspec.convert(yaml.safe_load(text), Fleet)
    except (yaml.YAMLError, msgspec.ValidationError, ValueError) as error:
        raise FleetError(f"{where}: {error}") from error
    if not fleet.clusters:
        raise FleetError(f"{where}: clusters is empty; name at least one")
    if CONTROL in (cluster.name for cluster in fleet.clusters):
        raise FleetError(
            f"{where}: a cluster cannot be called {CONTROL!r}, the control plane's context; choose another name"
        )
    for what, names in (
        ("cluster", [c.name for c in fleet.clusters]),
        ("secret", [c.secret.name for c in fleet.clusters]),
        *((f"pool of cluster {c.name}", [p.name for p in c.pools]) for c in fleet.clusters),
    ):
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise FleetError(f"{where}: {what} {twice[0]!r} is there twice; names have to differ")
    return fleet


def load(path: Path) -> Fleet:
    """Raises `FleetError` when the file is missing or wrong."""
    try:
        return parse(path.read_text(), str(path))
    except OSError as error:
        raise FleetError(f"{path}: {error.strerror}; give --fleet the path of a fleet file") from error


def dump(fleet: Fleet) -> str:
    return yaml.safe_dump(msgspec.to_builtins(fleet), sort_keys=False)


def _region(region: str) -> Cluster:
    gpu = Device(driver="gpu.example.com", capacity={"memory": "80Gi"})
    pool = Pool(name=f"gpu-{region}", devices=(gpu,))
    return Cluster(name=f"gpu-{region}", secret=SecretRef(name=f"{region}-kubeconfig"), pools=(pool,))


TWO_REGIONS = Fleet(clusters=(_region("eu-west"), _region("us-east")), namespaces=("ml-team",))
"""The fleet behind ``examples/two-regions``: a region each in Europe and America, one node with one GPU in both."""
