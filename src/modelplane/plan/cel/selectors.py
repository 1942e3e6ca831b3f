"""Device selectors: the CEL dialect in which DRA judges one device.

The same text is judged again by the real allocator on the cluster, so compile errors and results are those of Kubernetes.
Compiled selectors are kept by text: a fleet repeats few of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeAlias

from modelplane.errors import PermanentError
from modelplane.plan.cel.program import Program
from modelplane.plan.cel.syntax import CelError, Fault, Issue
from modelplane.plan.cel.types import ANY, BOOL, DYN, QUANTITY, STRING, Type, map_of
from modelplane.plan.cel.values import DefaultMap, Value, type_name
from modelplane.plan.quantity import QuantityError, parse_quantity
from modelplane.plan.semver import SemverError, parse_semver

LONGEST: Final = 10_240
"""Bytes of text that Kubernetes takes in one selector."""


class SelectorError(PermanentError):
    """The selector does not compile. ``line`` and ``column`` count from 1, and are 0 when the whole text is meant."""

    def __init__(self, message: str, issues: tuple[Issue, ...]) -> None:
        super().__init__(message)
        self.issues = issues
        self.line, self.column = issues[0].line, issues[0].column


@dataclass(frozen=True, slots=True)
class Match:
    """The device satisfies the selector."""


@dataclass(frozen=True, slots=True)
class NoMatch:
    """The selector was judged and is false."""


@dataclass(frozen=True, slots=True)
class Error:
    """The selector could not be judged for this device, which therefore does not match. ``reason`` names what is missing."""

    reason: str


Outcome: TypeAlias = Match | NoMatch | Error

MATCH: Final = Match()
NO_MATCH: Final = NoMatch()


class BoundDevice:
    """A device as selectors see it, prepared once. One entry that cannot be read makes every selector an error."""

    __slots__ = ("error", "value")

    def __init__(
        self,
        driver: str,
        attributes: Mapping[str, Mapping[str, Any]],
        capacity: Mapping[str, Any],
        *,
        list_attributes: bool = False,
    ) -> None:
        """``attributes`` and ``capacity`` are as in a ResourceSlice or an InferenceClass: names with an optional domain, typed
        values; a capacity is ``{"value": "80Gi"}`` or just the quantity."""
        self.error: Error | None = None
        self.value: Value = None
        try:
            self.value = {
                "driver": driver,
                "attributes": _domains(driver, {k: _attribute(k, v, list_attributes) for k, v in attributes.items()}),
                "capacity": _domains(driver, {k: _capacity(k, v) for k, v in capacity.items()}),
                "allowMultipleAllocations": False,
            }
        except Fault as fault:
            self.error = Error(str(fault))


class Selector:
    """A compiled, type-checked selector."""

    __slots__ = ("_program", "text")

    def __init__(self, text: str, *, list_attributes: bool = False) -> None:
        self.text = text
        if len(text.encode()) > LONGEST:
            issue = Issue(f"a selector must be no longer than {LONGEST} bytes", 0, 0)
            raise SelectorError(issue.message, (issue,))
        try:
            program = Program(text, {"device": _LIST_DEVICE if list_attributes else _DEVICE})
        except CelError as error:
            raise SelectorError(str(error), error.issues) from None
        if program.type != BOOL and program.type != (DYN if list_attributes else ANY):
            issue = Issue(f"must evaluate to bool or the unknown type, not {program.type}", 0, 0)
            raise SelectorError(issue.message, (issue,))
        self._program = program

    def evaluate(self, device: BoundDevice) -> Outcome:
        """Whether the device satisfies the selector, or why that cannot be said."""
        if device.error is not None:
            return device.error
        try:
            value = self._program.run((device.value,))
        except Fault as fault:
            return Error(str(fault))
        if value is True:
            return MATCH
        if value is False:
            return NO_MATCH
        return Error(f"CEL result of type {type_name(value)} could not be converted to bool")

    def matches(self, device: BoundDevice) -> bool:
        """Whether the device satisfies the selector; an error counts as not."""
        return self.evaluate(device) is MATCH


@lru_cache(maxsize=4096)
def _compiled(text: str, list_attributes: bool) -> Selector:
    return Selector(text, list_attributes=list_attributes)


def compile_selector(text: str, *, list_attributes: bool = False) -> Selector:
    """Compile a device selector, with Kubernetes' feature gates for list attributes off or on. Raises `SelectorError`."""
    return _compiled(text, list_attributes)


def _device(attribute: Type) -> Type:
    return Type(
        "kubernetes.DRADevice",
        fields={
            "driver": STRING,
            "attributes": map_of(STRING, map_of(STRING, attribute)),
            "capacity": map_of(STRING, map_of(STRING, QUANTITY)),
            "allowMultipleAllocations": BOOL,
        },
    )


_DEVICE: Final = _device(ANY)
_LIST_DEVICE: Final = _device(DYN)


def _domains(driver: str, entries: Mapping[str, Value]) -> DefaultMap:
    """Entries by domain; a name without one belongs to the driver's."""
    domains = DefaultMap()
    for name, value in entries.items():
        domain, slash, identifier = name.partition("/")
        if not slash:
            domain, identifier = driver, name
        members = domains.setdefault(domain, {})
        assert isinstance(members, dict)
        members[identifier] = value
    return domains


def _attribute(name: str, entry: Mapping[str, Any], lists: bool) -> Value:
    if entry.get("version") is not None:
        return _version(name, entry["version"])
    for scalar in ("string", "bool", "int"):
        if entry.get(scalar) is not None:
            return entry[scalar]
    if lists:
        for plural in ("strings", "bools", "ints"):
            if entry.get(plural) is not None:
                return list(entry[plural])
        if entry.get("versions") is not None:
            return [_version(name, version) for version in entry["versions"]]
    raise Fault(f"attribute {name}: unsupported attribute value")


def _version(name: str, text: str) -> Value:
    try:
        return parse_semver(text)
    except SemverError as error:
        raise Fault(f"attribute {name}: parse semantic version: {error}") from None


def _capacity(name: str, entry: Any) -> Value:
    text = entry.get("value") if isinstance(entry, Mapping) else entry
    try:
        return parse_quantity(str(text))
    except QuantityError as error:
        raise Fault(f"capacity {name}: {error}") from None
