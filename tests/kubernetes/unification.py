"""Which declared types may stand where: enough of CEL's rules to draw selectors that mostly compile."""

from __future__ import annotations

from collections.abc import Mapping

from modelplane.plan.cel.types import DYN, Type


def unify(bound: dict[str, Type], formal: Type, actual: Type) -> bool:
    """Whether a value of the actual type may be given for the formal one; binds the formal's type parameters."""
    if formal.is_param:
        known = bound.get(formal.name)
        if known is None:
            bound[formal.name] = actual
            return True
        if not unify(bound, known, actual):
            return False
        if actual.is_dynamic:
            bound[formal.name] = actual
        return True
    if formal.is_dynamic or actual.is_dynamic:
        return True
    if "null" in (formal.name, actual.name) and formal.name != actual.name:
        return "." in formal.name + actual.name or {formal.name, actual.name} & {"duration", "timestamp"} != set()
    if formal.name != actual.name:
        return False
    if formal.name == "type" or len(formal.params) != len(actual.params):
        return True
    return all(unify(bound, f, a) for f, a in zip(formal.params, actual.params, strict=True))


def substitute(bound: Mapping[str, Type], type_: Type) -> Type:
    """The type with its parameters replaced; an unbound one becomes dyn."""
    if type_.is_param:
        return bound.get(type_.name, DYN)
    if type_.params:
        return Type(type_.name, tuple(substitute(bound, param) for param in type_.params))
    return type_
