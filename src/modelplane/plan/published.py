"""Devices of a file, held to what a ResourceSlice could publish: a selector that is tried on impossible devices proves nothing.

Names, types and lengths are those that Kubernetes takes, and every fault is told with its path. A version is any text: one that is
none makes selectors an error for its device, as it does in Kubernetes where an old driver publishes such a thing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from modelplane.plan.cel.admission import driver_fault, name_fault
from modelplane.plan.quantity import QuantityError, parse_quantity

LONGEST: Final = 64
"""Bytes of text or of a version."""
MOST: Final = 32
"""Attributes and capacities of one device together."""
_FIELDS: Final = frozenset(
    ("name", "driver", "attributes", "capacity", "taints", "allowMultipleAllocations", "consumesCounters")
) | frozenset(("nodeName", "nodeSelector", "allNodes", "bindsToNode", "bindingConditions", "bindingFailureConditions"))
"""Of a ResourceSlice's device, and the driver; selectors see the first three of them."""


def faults(name: str, device: Any) -> Iterator[str]:
    """Everything about a device that could not be published."""
    here = f"$[{json.dumps(name, ensure_ascii=False)}]"
    if not name.strip() or not name.isprintable():
        yield f"{here}: a device needs a name of printable characters, which stands before its answer"
    if not isinstance(device, Mapping):
        yield f"{here}: device {name} is no object with a driver; give it one"
        return
    strange = sorted(map(str, device.keys() - _FIELDS))
    if strange:
        yield f"{here}: unknown field {', '.join(strange)}; a device has driver, attributes and capacity"
    driver = device.get("driver")
    if not isinstance(driver, str):
        yield f"{here}.driver: device {name} is no object with a driver; give it one"
    elif fault := driver_fault(driver):
        yield f"{here}.driver: {fault}"
    count = 0
    for block, judge in (("attributes", _attribute), ("capacity", _capacity)):
        entries = device.get(block)
        if entries is None:
            continue
        if not isinstance(entries, Mapping):
            yield f"{here}.{block}: attributes and capacity of device {name} are objects with an entry a name"
            continue
        count += len(entries)
        for key, value in entries.items():
            where = f"{here}.{block}[{json.dumps(key, ensure_ascii=False)}]"
            for fault in filter(None, (name_fault(key), judge(value))):
                yield f"{where}: {fault}"
    if count > MOST:
        yield f"{here}: {count} attributes and capacities; a device has at most {MOST} of both together"


def _attribute(value: Any) -> str:
    """What is wrong with a typed value; empty where nothing is."""
    if not isinstance(value, Mapping):
        return f'{_shown(value)} is no object such as {{"string": "Hopper"}}'
    if len(value) != 1 or not value.keys() <= _TYPES.keys():
        return f"has {', '.join(map(str, value)) or 'nothing'}; set exactly one of {', '.join(_TYPES)}"
    ((kind, given),) = value.items()
    return _TYPES[kind](given)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        return f"{_shown(value)} is no text"
    size = len(value.encode(errors="surrogatepass"))
    return f"{size} bytes of text; at most {LONGEST} can be published" if size > LONGEST else ""


def _truth(value: Any) -> str:
    return "" if isinstance(value, bool) else f"{_shown(value)} is neither true nor false"


def _whole(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int):
        return f"{_shown(value)} is no whole number"
    return "" if -(2**63) <= value < 2**63 else f"{value} does not fit 64 bits"


def _list(judge: Callable[[Any], str]) -> Callable[[Any], str]:
    def judged(value: Any) -> str:
        if not isinstance(value, list) or not value:
            return f"{_shown(value)} is no list with at least one value"
        return next(filter(None, map(judge, value)), "")

    return judged


_TYPES: Final[Mapping[str, Callable[[Any], str]]] = {
    "string": _text,
    "version": _text,
    "bool": _truth,
    "int": _whole,
    "strings": _list(_text),
    "versions": _list(_text),
    "bools": _list(_truth),
    "ints": _list(_whole),
}


def _capacity(value: Any) -> str:
    amount = value.get("value") if isinstance(value, Mapping) else value
    if isinstance(amount, bool) or not isinstance(amount, str | int | float):
        return f"{_shown(value)} is no quantity such as 80Gi"
    try:
        parse_quantity(str(amount))
    except QuantityError as error:
        return f"{_shown(amount)} is no quantity such as 80Gi: {error}"
    return ""


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 4]} ..."
