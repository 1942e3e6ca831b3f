"""Readiness expressions: CEL over ``object``, compiled when the first child needs one."""

from __future__ import annotations

from modelplane.api.meta import Object
from modelplane.plan.cel import compile_rule


def holds(expression: str, obj: Object) -> bool:
    """Whether the expression is true; an error, such as a field that is not there yet, is not true."""
    return compile_rule(expression, ("object",)).holds(object=obj)
