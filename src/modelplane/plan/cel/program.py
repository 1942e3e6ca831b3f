"""From text to something that runs: parse, check, compile, and evaluation under a step budget."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from modelplane.plan.cel.check import check
from modelplane.plan.cel.compiler import Compiled, ConstantError, compile_tree
from modelplane.plan.cel.folds import Exhausted
from modelplane.plan.cel.parser import parse
from modelplane.plan.cel.syntax import CelError, Fault, Issue, Select, Source
from modelplane.plan.cel.types import Type
from modelplane.plan.cel.validate import validate, walk
from modelplane.plan.cel.values import Value

STEPS: Final = 1_000_000
"""The budget of one evaluation, as large as Kubernetes' cost limit."""


def load_libraries() -> None:
    """Fill the registry of functions. Only a process that compiles an expression pays for that."""
    from modelplane.plan.cel.functions import all as _libraries

    assert _libraries.LIBRARIES


class Program:
    """A compiled expression. ``type`` is what the checker says it gives."""

    def __init__(self, text: str, variables: Mapping[str, Type], rename: Callable[[str], str] | None = None) -> None:
        """``rename`` is applied to the name of each selected field. Raises `CelError` with positions."""
        load_libraries()
        self.text = text
        source = Source(text)
        try:
            compiled = self._compiled(source, variables, rename)
        except RecursionError:
            raise CelError(source, [Issue("expression recursion limit exceeded", 0, 0)]) from None
        except ConstantError as error:
            raise CelError(source, [Issue(str(error), 0, 0)], "program instantiation failed: ") from None
        self._closure = compiled.closure
        self._spare = [None] * (compiled.places - len(variables) - 1)

    def _compiled(self, source: Source, variables: Mapping[str, Type], rename: Callable[[str], str] | None) -> Compiled:
        tree = parse(source)
        if rename is not None:
            for node in walk(tree):
                if isinstance(node, Select):
                    node.field = rename(node.field)
        self.type = check(source, tree, variables)
        validate(source, tree)
        return compile_tree(tree, variables)

    def run(self, values: Sequence[Value]) -> Value:
        """The value for the variables in their order. Raises `Fault`."""
        try:
            return self._closure([STEPS, *values, *self._spare])
        except Exhausted:
            raise Fault("operation cancelled: actual cost limit exceeded") from None
        except RecursionError:
            raise Fault("the values are nested too deeply") from None
