"""The devices of a random cluster, the classes that select them, and claims that ask for them.

Selectors are drawn from what people write: a model, an amount of memory, a driver's version. Some devices lack an attribute, and a
selector that reads it without asking whether it is there fails, as it does for real.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from modelplane.api.meta import Object

MODELS: Final = ("a100", "h100", "b200")
SIZES: Final = ("16Gi", "40Gi", "80Gi")


@dataclass(frozen=True)
class Kit:
    """Two drivers of one cluster; classes are named after them."""

    gpu: str
    nic: str

    def devices(self, draw: random.Random, driver: str, count: int, prefix: str = "dev") -> list[Object]:
        return [self._device(draw, driver, f"{prefix}-{number}") for number in range(count)]

    def _device(self, draw: random.Random, driver: str, name: str) -> Object:
        attributes: Object = {"index": {"int": draw.randint(0, 3)}}
        if draw.random() < 0.85:
            attributes["model"] = {"string": draw.choice(MODELS)}
        if draw.random() < 0.9:
            attributes["numa"] = {"int": draw.randint(0, 1)}
        if draw.random() < 0.5:
            attributes["ecc"] = {"bool": draw.random() < 0.5}
        if draw.random() < 0.6:
            attributes["version"] = {"version": draw.choice(("1.2.3", "2.0.0", "2.10.0-rc.1"))}
        device: Object = {"name": name, "attributes": attributes}
        if driver == self.gpu and draw.random() < 0.95:
            device["capacity"] = {"memory": {"value": draw.choice(SIZES)}}
        if draw.random() < 0.1:
            effect = draw.choice(("NoSchedule", "NoExecute", "None"))
            device["taints"] = [{"key": draw.choice(("broken", "hot")), "value": "yes", "effect": effect}]
        return device

    def classes(self, draw: random.Random) -> list[Object]:
        """A class for each driver, and one for the better devices of the first; one in ten has no selector at all."""
        found = [
            _class(self.gpu, [f"device.driver == '{self.gpu}'"]),
            _class(self.nic, [f"device.driver == '{self.nic}'"]),
            _class(f"big-{self.gpu}", [f"device.driver == '{self.gpu}'", self.selector(draw, self.gpu, careful=True)]),
        ]
        if draw.random() < 0.3:
            opaque = {"driver": self.gpu, "parameters": {"sharing": "none"}}
            found[0]["spec"]["config"] = [{"opaque": opaque}]
        return found

    def selector(self, draw: random.Random, driver: str, *, careful: bool = False) -> str:
        """``careful`` ones ask whether an attribute is there."""
        own = f"device.attributes['{driver}']"
        room = f"device.capacity['{driver}']"
        model, size = draw.choice(MODELS), draw.choice(SIZES)
        safe = [
            f"'model' in {own} && {own}.model == '{model}'",
            f"has({own}.model) && {own}.model in ['{model}', '{draw.choice(MODELS)}']",
            f"has({room}.memory) && {room}.memory.compareTo(quantity('{size}')) >= 0",
            f"has({own}.ecc) && {own}.ecc",
            f"has({own}.version) && {own}.version.isGreaterThan(semver('1.9.0'))",
            f"{own}.index >= {draw.randint(0, 3)}",
            f"{own}.index != {draw.randint(0, 3)}",
            f"device.driver == '{driver}' && {own}.index < 3",
        ]
        bold = [
            f"{own}.model == '{model}'",
            f"{own}.numa == {draw.randint(0, 1)}",
            f"{own}.index == 0 || {own}.model == '{model}'",
            f"{room}.memory.isGreaterThan(quantity('{size}'))",
            f"{own}.ecc || {own}.index > 0",
        ]
        return draw.choice(safe if careful or draw.random() < 0.75 else bold)


def _class(name: str, expressions: Sequence[str]) -> Object:
    selectors = [{"cel": {"expression": expression}} for expression in expressions]
    spec: Object = {"selectors": selectors} if selectors else {}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}


def claim(draw: random.Random, kit: Kit, namespace: str, name: str) -> Object:
    """A claim of one to three requests."""
    requests = [_request(draw, kit, f"r{number}") for number in range(draw.choice((1, 1, 1, 2, 2, 3)))]
    devices: Object = {"requests": requests}
    constraints = []
    if draw.random() < 0.2:
        attribute = f"{kit.gpu}/{draw.choice(('numa', 'model'))}"
        constraints.append({**_some(draw, requests), "matchAttribute": attribute})
    if draw.random() < 0.15:
        constraints.append({**_some(draw, requests), "distinctAttribute": f"{kit.gpu}/index"})
    if constraints:
        devices["constraints"] = constraints
    if draw.random() < 0.15:
        opaque = {"driver": kit.gpu, "parameters": {"mode": "fast"}}
        devices["config"] = [{**_some(draw, requests), "opaque": opaque}]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"devices": devices},
    }


def _some(draw: random.Random, requests: Sequence[Object]) -> Object:
    """All requests of the claim, or only some of them by name."""
    if draw.random() < 0.5:
        return {}
    chosen = draw.sample(list(requests), draw.randint(1, len(requests)))
    return {"requests": [each["name"] for each in chosen]}


def _request(draw: random.Random, kit: Kit, name: str) -> Object:
    if draw.random() < 0.15:
        alternatives = [{"name": f"s{number}", **_ask(draw, kit)} for number in range(draw.choice((2, 3)))]
        return {"name": name, "firstAvailable": alternatives}
    ask = _ask(draw, kit)
    if draw.random() < 0.06:
        ask["adminAccess"] = True
    return {"name": name, "exactly": ask}


def _ask(draw: random.Random, kit: Kit) -> Object:
    driver = kit.gpu if draw.random() < 0.8 else kit.nic
    name = driver
    if draw.random() < 0.15:
        name, driver = f"big-{kit.gpu}", kit.gpu
    elif draw.random() < 0.01:
        name = f"missing-{driver}"
    ask: Object = {"deviceClassName": name}
    if draw.random() < 0.08:
        ask["allocationMode"] = "All"
    else:
        ask |= {"allocationMode": "ExactCount", "count": draw.choice((1, 1, 1, 1, 2, 3))}
    if draw.random() < 0.35:
        expressions = [kit.selector(draw, driver) for _ in range(draw.choice((1, 1, 2)))]
        ask["selectors"] = [{"cel": {"expression": expression}} for expression in expressions]
    if draw.random() < 0.2:
        key = {"key": draw.choice(("broken", "hot"))} if draw.random() < 0.6 else {}
        ask["tolerations"] = [{**key, "operator": "Exists"}]
    if driver == kit.gpu and draw.random() < 0.1:
        ask["capacity"] = {"requests": {"memory": draw.choice(SIZES)}}
    return ask
