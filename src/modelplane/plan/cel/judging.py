"""Judging a rule of a schema before anybody meets it: does it compile against the schema's types, and what may it cost.

What runs later is compiled without types (`rules`), since values were checked against the schema by then. Here the words are those
in which Kubernetes refuses a definition.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from modelplane.plan.cel.check import check
from modelplane.plan.cel.compiler import ConstantError, compile_tree
from modelplane.plan.cel.cost import Lookup, estimate
from modelplane.plan.cel.parser import parse
from modelplane.plan.cel.program import load_libraries
from modelplane.plan.cel.rules import RuleError
from modelplane.plan.cel.syntax import CelError, Ident, Issue, Source
from modelplane.plan.cel.types import Type
from modelplane.plan.cel.validate import validate, walk

_WORDS: Final = {"bool": ("", "cel expression ", "program "), "string": ("messageExpression ",) * 3}
"""What a rule and a message expression are called when they do not compile, give something else, or cannot be made to run."""
_ABSENT: Final = frozenset({"includes"})
"""Functions of device selectors that rules do not have; ``cel.bind`` is another."""


class Judged(NamedTuple):
    """A rule that compiles: the most that it may cost, and the names that stand in it."""

    cost: int
    names: frozenset[str]


def judge(text: str, variables: Mapping[str, Type], lookup: Lookup, result: str) -> Judged:
    """Compile an expression that has to give ``result``, bool or string. Raises `RuleError` with Kubernetes' words."""
    load_libraries()
    source = Source(text)
    compiling, giving, making = _WORDS[result]
    try:
        tree = parse(source, bindings=False)
        found = check(source, tree, variables, _ABSENT)
        validate(source, tree)
        if found.name != result:
            raise _refused(f"{giving}must evaluate to a {result}")
        names = frozenset(node.name for node in walk(tree) if isinstance(node, Ident))
        try:
            compile_tree(tree, variables)
        except ConstantError as error:
            raise _refused(f"{making}instantiation failed: {error}", names) from None
        return Judged(estimate(tree, lookup), names)
    except CelError as error:
        told = "\n".join(map(source.render, error.issues))
        raise RuleError(f"{compiling}compilation failed: {told}", error.issues) from None
    except RecursionError:
        raise _refused(f"{compiling}compilation failed: expression recursion limit exceeded") from None


def _refused(message: str, names: frozenset[str] = frozenset()) -> RuleError:
    return RuleError(message, (Issue(message, 0, 0),), names)
