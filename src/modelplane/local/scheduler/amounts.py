"""Resource amounts as thousandths in whole numbers: exact to add and compare, small to keep."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, TypeAlias

from modelplane.plan.quantity import parse_quantity

Amounts: TypeAlias = dict[str, int]
"""Resource name to thousandths."""

OF_WHOLE_PODS: Final = ("cpu", "memory")
"""What a pod may ask as a whole, besides huge pages."""


@lru_cache(maxsize=4096)
def thousandths(text: str) -> int:
    """The quantity times one thousand, rounded up. Raises QuantityError."""
    quantity = parse_quantity(text)
    exponent = quantity.exponent + 3
    if exponent >= 0:
        return int(quantity.unscaled * 10**exponent)
    return int(-(-quantity.unscaled // 10**-exponent))


def read(quantities: Mapping[str, Any] | None) -> Amounts:
    return {name: thousandths(str(value)) for name, value in (quantities or {}).items()}


def add(into: Amounts, amounts: Mapping[str, int], sign: int = 1) -> None:
    for name, value in amounts.items():
        into[name] = into.get(name, 0) + sign * value


def pod_requests(spec: Mapping[str, Any]) -> Amounts:
    """What a pod asks of its node: containers and sidecars together, or the largest init container, plus overhead.

    What the pod asks as a whole (`spec.resources`) stands in place of what its containers ask. A limit without a request is a
    request, as the API server defaults it.
    """
    total: Amounts = {}
    for container in spec.get("containers") or ():
        add(total, _container(container))
    sidecars: Amounts = {}
    largest: Amounts = {}
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            add(sidecars, _container(container))
            _raise(largest, sidecars)
        else:
            alone = dict(sidecars)
            add(alone, _container(container))
            _raise(largest, alone)
    add(total, sidecars)
    _raise(total, largest)
    whole = spec.get("resources") or {}
    limits = {name: value for name, value in (whole.get("limits") or {}).items() if not total.get(name)}
    for name, value in read({**limits, **(whole.get("requests") or {})}).items():
        if name in OF_WHOLE_PODS or name.startswith("hugepages-"):
            total[name] = value
    add(total, read(spec.get("overhead")))
    return total


def _container(container: Mapping[str, Any]) -> Amounts:
    resources = container.get("resources") or {}
    return read({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def _raise(into: Amounts, floor: Mapping[str, int]) -> None:
    for name, value in floor.items():
        into[name] = max(into.get(name, 0), value)


def total(parts: Iterable[Mapping[str, int]]) -> Amounts:
    into: Amounts = {}
    for part in parts:
        add(into, part)
    return into
