"""CEL as Kubernetes has it: device selectors of DRA, validation rules of schemas, readiness expressions.

Parsed and checked once, evaluated as nested Python closures: a selector costs about a microsecond per device, and no C++ library
lives in every process that validates an object. Steps are counted, so that no expression runs for long.
"""

from modelplane.plan.cel.rules import Rule, RuleError, compile_rule
from modelplane.plan.cel.selectors import (
    BoundDevice,
    Error,
    Match,
    NoMatch,
    Outcome,
    Selector,
    SelectorError,
    compile_selector,
)
from modelplane.plan.cel.syntax import Fault, Issue

__all__ = [
    "BoundDevice",
    "Error",
    "Fault",
    "Issue",
    "Match",
    "NoMatch",
    "Outcome",
    "Rule",
    "RuleError",
    "Selector",
    "SelectorError",
    "compile_rule",
    "compile_selector",
]
