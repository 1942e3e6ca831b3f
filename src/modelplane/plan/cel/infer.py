"""Type variables: what an empty list holds, what `optional.none()` lacks, and what a function's parameters stand for.

The rules are those of Kubernetes' checker, step by step: which overload a variable meets first decides what it is from then on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from modelplane.plan.cel.types import DYN, NULL, Type

_VARIABLE: Final = "_var"
_PLAIN: Final = frozenset({"bool", "int", "uint", "double", "string", "bytes", "list", "map", "type", "null"})

Bindings = dict[str, Type]


class Inference:
    """What is known of the variables of one expression."""

    def __init__(self) -> None:
        self._bound: Bindings = {}
        self._made = 0

    def fresh(self) -> Type:
        self._made += 1
        return Type(f"{_VARIABLE}{self._made}")

    def instance(self, types: Sequence[Type]) -> list[Type]:
        """A declaration's types with variables of their own in place of its parameters."""
        letters: Bindings = {}
        return [self._instance(letters, type_) for type_ in types]

    def _instance(self, letters: Bindings, type_: Type) -> Type:
        if type_.is_param:
            if type_.name not in letters:
                letters[type_.name] = self.fresh()
            return letters[type_.name]
        if not type_.params:
            return type_
        return Type(type_.name, tuple(self._instance(letters, param) for param in type_.params), type_.fields)

    def assignable(self, given: Sequence[Type], wanted: Sequence[Type]) -> bool:
        """Whether each given type may stand for the wanted one; what that says about variables is kept when all may."""
        trial = dict(self._bound)
        if not _all_assignable(trial, given, wanted):
            return False
        self._bound = trial
        return True

    def resolved(self, type_: Type, *, final: bool = False) -> Type:
        """The type with what is known put in; in the end an unknown one is dyn."""
        known = self._bound.get(type_.name)
        if known is not None:
            return self.resolved(known, final=final)
        if is_variable(type_):
            return DYN if final else type_
        if not type_.params:
            return type_
        return Type(type_.name, tuple(self.resolved(param, final=final) for param in type_.params), type_.fields)


def is_variable(type_: Type) -> bool:
    return type_.name.startswith(_VARIABLE)


def most_general(one: Type, other: Type) -> Type:
    """The more general of two types that may stand for each other."""
    return one if _at_most_as_specific(one, other) else other


def _at_most_as_specific(one: Type, other: Type) -> bool:
    if one.name in ("dyn", "any") or is_variable(one):
        return True
    if other.name in ("dyn", "any") or is_variable(other) or one.name != other.name:
        return False
    if one.name == "type":
        return True
    return len(one.params) == len(other.params) and all(map(_at_most_as_specific, one.params, other.params))


def _all_assignable(bound: Bindings, given: Sequence[Type], wanted: Sequence[Type]) -> bool:
    return len(given) == len(wanted) and all(_assignable(bound, g, w) for g, w in zip(given, wanted, strict=True))


def _assignable(bound: Bindings, given: Type, wanted: Type) -> bool:
    if is_variable(wanted):
        valid, known = _substitutes(bound, given, wanted)
        if valid:
            return True
        if known:
            return False
    if is_variable(given):
        return _substitutes(bound, wanted, given)[0]
    if given.is_dynamic or wanted.is_dynamic:
        return True
    if "null" in (given.name, wanted.name):
        other = wanted if given.name == "null" else given
        return other == NULL or other.name not in _PLAIN
    if given.name != wanted.name:
        return False
    return given.name == "type" or _all_assignable(bound, given.params, wanted.params)


def _substitutes(bound: Bindings, type_: Type, variable: Type) -> tuple[bool, bool]:
    """Whether the variable may be the type, and whether it was something already."""
    if type_ == variable:
        return True, True
    known = bound.get(variable.name)
    if known is None:
        free = _absent(bound, variable, type_)
        if free:
            bound[variable.name] = type_
        return free, False
    if known == type_:
        return True, True
    if not _assignable(bound, type_, known):
        return False, True
    general = most_general(type_, known)
    if _absent(bound, variable, general):
        bound[variable.name] = general
    return True, True


def _absent(bound: Bindings, variable: Type, within: Type) -> bool:
    """Whether a variable is no part of what it would be."""
    if within == variable:
        return False
    if is_variable(within):
        known = bound.get(within.name)
        return known is None or _absent(bound, variable, known)
    return all(_absent(bound, variable, param) for param in within.params)
