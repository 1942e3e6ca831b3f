"""Which devices a node can use: ResourceSlices to pools, as kube-scheduler gathers them.

Only the newest generation of a pool counts. A pool of which slices are missing gives no device, and one in which a device's name
comes twice neither; both are kept, because who asks for all devices has to wait for them. Shared counters, consumable capacity
and binding conditions are not published by our nodes; devices with any of these are left alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from modelplane.api.meta import Object
from modelplane.local.scheduler.nodes import NodeView, matches_selector

DeviceId: TypeAlias = tuple[str, str, str]
"""Driver, pool, device name."""
PoolId: TypeAlias = tuple[str, str]
"""Driver, pool."""

_UNSUPPORTED = ("consumesCounters", "allowMultipleAllocations", "bindingConditions")


@dataclass(frozen=True, slots=True)
class Device:
    """One published device, with what a selector may ask."""

    driver: str
    pool: str
    name: str
    attributes: Mapping[str, Any]
    capacity: Mapping[str, Any]
    taints: tuple[Mapping[str, Any], ...] = ()
    reach: Mapping[str, Any] = field(default_factory=dict)
    """From which nodes it can be used: the fields `nodeName`, `nodeSelector`, `allNodes` of its slice or its own."""
    here: bool = True
    """Whether the node is one of them; a slice may say so device by device."""

    @property
    def id(self) -> DeviceId:
        return (self.driver, self.pool, self.name)


@dataclass(frozen=True, slots=True)
class Pool:
    """What of a pool concerns a node. Without `usable` nothing may be taken from it, for the reason `state`."""

    id: PoolId
    devices: Sequence[Device] = ()
    usable: bool = True
    state: str = ""


class Shelf:
    """All slices, sorted once for the questions of many nodes."""

    def __init__(self, slices: Iterable[Object]) -> None:
        self._of_node: defaultdict[str, list[Object]] = defaultdict(list)
        self._shared: list[Object] = []
        self._of_pool: defaultdict[PoolId, list[Object]] = defaultdict(list)
        for piece in slices:
            name = piece["spec"].get("nodeName")
            (self._of_node[name] if name else self._shared).append(piece)
            self._of_pool[_pool_id(piece)].append(piece)

    def pools(self, node: NodeView) -> list[Pool]:
        """In the order in which devices are tried: by driver and pool, slices by name, devices as published."""
        newest: dict[PoolId, list[Object]] = {}
        for piece in (*self._of_node.get(node.name, ()), *(p for p in self._shared if _concerns(p["spec"], node))):
            pieces = newest.setdefault(_pool_id(piece), [])
            if pieces and _generation(piece) > _generation(pieces[0]):
                pieces.clear()
            if not pieces or _generation(piece) == _generation(pieces[0]):
                pieces.append(piece)
        return [pool for id_, pieces in sorted(newest.items()) for pool in self._pool(id_, pieces, node)]

    def _pool(self, id_: PoolId, pieces: Sequence[Object], node: NodeView) -> Iterator[Pool]:
        wanted = pieces[0]["spec"]["pool"].get("resourceSliceCount", 1)
        if len(pieces) != wanted:
            generation = _generation(pieces[0])
            if any(_generation(piece) > generation for piece in self._of_pool[id_]):
                return  # being replaced, by slices that do not concern this node
            if sum(_generation(piece) == generation for piece in self._of_pool[id_]) != wanted:
                yield Pool(id_, usable=False, state="being updated")
                return
        devices = [d for p in sorted(pieces, key=lambda p: str(p["metadata"]["name"])) for d in _devices(id_, p, node)]
        if len({device.name for device in devices}) < len(devices):
            yield Pool(id_, usable=False, state="invalid")
        else:
            yield Pool(id_, devices)


def _devices(id_: PoolId, piece: Object, node: NodeView) -> Iterator[Device]:
    spec = piece["spec"]
    each = bool(spec.get("perDeviceNodeSelection"))
    for device in spec.get("devices") or ():
        if any(device.get(name) for name in _UNSUPPORTED):
            continue
        reach = {key: (device if each else spec).get(key) for key in ("nodeName", "nodeSelector", "allNodes")}
        yield Device(
            driver=id_[0],
            pool=id_[1],
            name=device["name"],
            attributes=device.get("attributes") or {},
            capacity=device.get("capacity") or {},
            taints=tuple(device.get("taints") or ()),
            reach=reach,
            here=not each or _reaches(reach, node),
        )


def _concerns(spec: Mapping[str, Any], node: NodeView) -> bool:
    if spec.get("perDeviceNodeSelection"):
        return any(_reaches(device, node) for device in spec.get("devices") or ())
    return _reaches(spec, node)


def _reaches(spec: Mapping[str, Any], node: NodeView) -> bool:
    if spec.get("nodeName"):
        return bool(spec["nodeName"] == node.name)
    if spec.get("nodeSelector"):
        return matches_selector(spec["nodeSelector"], node.name, node.labels)
    return bool(spec.get("allNodes"))


def _pool_id(piece: Object) -> PoolId:
    return (str(piece["spec"]["driver"]), str(piece["spec"]["pool"]["name"]))


def _generation(piece: Object) -> int:
    return int(piece["spec"]["pool"].get("generation", 0))
