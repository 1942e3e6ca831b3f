"""Conditions as composers write them, and the questions that they ask of observed objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from modelplane.api.meta import Condition, Object, Status, condition_of
from modelplane.compose.contract import Answer, Unavailable

READY: Final = "Ready"
AVAILABLE: Final = "Available"
CREATING: Final = "Creating"


def true(type_: str, reason: str, message: str = "") -> Condition:
    return Condition(type=str(type_), status=Status.TRUE, reason=str(reason), message=message)


def false(type_: str, reason: str, message: str = "") -> Condition:
    return Condition(type=str(type_), status=Status.FALSE, reason=str(reason), message=message)


def unknown(type_: str, reason: str, message: str = "") -> Condition:
    return Condition(type=str(type_), status=Status.UNKNOWN, reason=str(reason), message=message)


def lost(type_: str, answer: Unavailable, what: str) -> Condition:
    """What cannot be seen now: Unknown, with the reason of the lost sight and what the person can do."""
    hint = f" {answer.message}" if answer.message else ""
    since = f" since {answer.since}" if answer.since else ""  # nobody knows since when a cluster is not registered
    return unknown(type_, answer.reason, f"{what} cannot be seen{since}.{hint}")


def not_read(what: str, *answers: Answer) -> str:
    """That something has not been read yet, with what keeps it from being read where that is known."""
    why = next((answer.message for answer in answers if isinstance(answer, Unavailable) and answer.message), "")
    return f"{what} not been read yet" + (f": {why}" if why else "")


def status_of(obj: Mapping[str, Any], type_: str) -> Status:
    """Status of a condition for the object's current generation; Unknown while there is none."""
    condition = condition_of(obj, type_)
    if condition is None:
        return Status.UNKNOWN
    generation = (obj.get("metadata") or {}).get("generation")
    seen = condition.observed_generation
    return Status.UNKNOWN if seen is not None and generation is not None and seen < generation else condition.status


def carries(observed: Any, wanted: Any) -> bool:
    """Whether an observed value has everything that was wanted; the API server may have added defaults around it.

    A list has to have the wanted entries in their order and no others. A server leaves an empty value of a built-in kind out
    (``omitempty`` of its types), so what is absent carries what is empty.
    """
    if observed is None:
        return not wanted
    if isinstance(wanted, Mapping):
        return isinstance(observed, Mapping) and all(carries(observed.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list | tuple):
        return (
            isinstance(observed, list | tuple)
            and len(observed) == len(wanted)
            and all(carries(have, want) for have, want in zip(observed, wanted, strict=True))
        )
    return bool(observed == wanted)


def first_address(gateway: Object) -> str | None:
    """The address that a Gateway has published, if any."""
    addresses = (gateway.get("status") or {}).get("addresses") or ()
    return next((entry["value"] for entry in addresses if entry.get("value")), None)
