"""CEL selectors over published devices: the planner's own evaluator, with answers kept per device."""

from __future__ import annotations

from functools import lru_cache

import orjson

from modelplane.local.scheduler.devices import SelectorError
from modelplane.local.scheduler.pools import Device
from modelplane.plan.cel import BoundDevice, Error, Match, compile_selector
from modelplane.plan.cel import SelectorError as CompileError


@lru_cache(maxsize=4096)
def _bound(driver: str, attributes: str, capacity: str) -> BoundDevice:
    return BoundDevice(driver, orjson.loads(attributes), orjson.loads(capacity))


def _bind(device: Device) -> BoundDevice:
    attributes = orjson.dumps(dict(device.attributes), option=orjson.OPT_SORT_KEYS).decode()
    capacity = orjson.dumps(dict(device.capacity), option=orjson.OPT_SORT_KEYS).decode()
    return _bound(device.driver, attributes, capacity)


def selects(expression: str, device: Device) -> bool:
    """Whether the device satisfies the selector. Raises `SelectorError` where it cannot be said, as kube-scheduler does."""
    try:
        selector = compile_selector(expression)
    except CompileError as error:
        raise SelectorError(f"CEL compile error: {error}") from error
    outcome = selector.evaluate(_bind(device))
    if isinstance(outcome, Error):
        raise SelectorError(f"CEL runtime error: {outcome.reason}")
    return isinstance(outcome, Match)
