"""The table of functions: each overload's signature and its implementation.

Library modules fill it when the first expression is compiled. A signature reads ``string.(string, int) -> list(string)``,
with the receiver before the dot; the runtime kinds for late dispatch follow from it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from modelplane.plan.cel.types import Type, parse_type
from modelplane.plan.cel.values import Value

Implementation: TypeAlias = Callable[..., Value]


@dataclass(frozen=True, slots=True)
class Overload:
    """One variant. ``kinds`` are what its arguments must be at run time, None for anything; ``generic`` implementations look
    at their arguments themselves."""

    member: bool
    params: tuple[Type, ...]
    result: Type
    implementation: Implementation
    kinds: tuple[str | None, ...]
    generic: bool


FUNCTIONS: Final[dict[str, list[Overload]]] = {}


def declare(name: str, *signatures: str, generic: bool = False) -> Callable[[Any], Any]:
    """Register a function under a name with one or more signatures."""

    def register(implementation: Implementation) -> Implementation:
        for signature in signatures:
            FUNCTIONS.setdefault(name, []).append(_overload(signature, implementation, generic))
        return implementation

    return register


def declare_form(name: str, signature: str) -> None:
    """Give the checker the type of what the compiler builds itself: nothing is ever called."""
    FUNCTIONS.setdefault(name, []).append(_overload(signature, NotImplemented, True))


def _overload(signature: str, implementation: Implementation, generic: bool) -> Overload:
    left, _, result = signature.partition(" -> ")
    receiver, dot, rest = left.rpartition(".(")
    params = _split(rest[:-1] if dot else left[1:-1])
    member = bool(dot)
    if member:
        params.insert(0, receiver)
    types = tuple(parse_type(param) for param in params)
    return Overload(member, types, parse_type(result), implementation, tuple(map(_kind, types)), generic)


def _split(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for index, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            parts.append(text[start:index].strip())
            start = index + 1
    tail = text[start:].strip()
    return [*parts, tail] if tail else parts


def _kind(type_: Type) -> str | None:
    return None if type_.is_param or type_.is_dynamic else type_.name
