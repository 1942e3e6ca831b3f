"""Rules over plain JSON: ``x-kubernetes-validations`` of a schema and readiness expressions.

Variables are dynamic: what a rule may touch was checked by the schema before. Names that Kubernetes escapes
(``__dash__``, ``__namespace__``) are found under their real spelling.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from modelplane.errors import PermanentError
from modelplane.plan.cel.lexer import KEYWORDS
from modelplane.plan.cel.program import Program
from modelplane.plan.cel.syntax import CelError, Fault, Issue
from modelplane.plan.cel.types import DYN
from modelplane.plan.cel.values import Value

_ESCAPES: Final = (("__dot__", "."), ("__dash__", "-"), ("__slash__", "/"), ("__underscores__", "__"))


class RuleError(PermanentError):
    """The rule does not compile. ``issues`` have the positions, ``names`` are those in it if it was read and only cannot run."""

    def __init__(self, message: str, issues: tuple[Issue, ...], names: frozenset[str] = frozenset()) -> None:
        super().__init__(message)
        self.issues = issues
        self.names = names


def unescaped(name: str) -> str:
    """A property's real name, where Kubernetes had to escape it to make it an identifier."""
    if not name.startswith("__") or not name.endswith("__") or name[2:-2] not in KEYWORDS:
        for escape, character in _ESCAPES:
            name = name.replace(escape, character)
        return name
    return name[2:-2]


class Rule:
    """A compiled rule over named variables."""

    def __init__(self, text: str, variables: Iterable[str], result: str) -> None:
        self.text = text
        self.variables = tuple(variables)
        try:
            self._program = Program(text, dict.fromkeys(self.variables, DYN), rename=unescaped)
        except CelError as error:
            raise RuleError(str(error), error.issues) from None
        found = self._program.type
        if str(found) != result and not found.is_dynamic:
            issue = Issue(f"must evaluate to {result}, not {found}", 0, 0)
            raise RuleError(issue.message, (issue,))
        self._result = {"bool": bool, "string": str}[result]

    def evaluate(self, /, **values: Value) -> Value:
        """The rule's value for JSON values by variable name. Raises `Fault` when evaluation ends in an error."""
        value = self._program.run([values[name] for name in self.variables])
        if not isinstance(value, self._result):
            raise Fault(f"the result is not a {self._result.__name__}")
        return value

    def holds(self, /, **values: Value) -> bool:
        """Whether the rule is true; an error counts as not true."""
        try:
            return self.evaluate(**values) is True
        except Fault:
            return False


@lru_cache(maxsize=4096)
def _compiled(text: str, variables: tuple[str, ...], result: str) -> Rule:
    return Rule(text, variables, result)


def compile_rule(text: str, variables: Iterable[str] = ("self", "oldSelf"), result: str = "bool") -> Rule:
    """Compile a rule over dynamic variables; ``result`` is ``bool``, or ``string`` for a message expression.

    Compiled rules are kept, so ask again freely. Raises `RuleError` with the positions.
    """
    return _compiled(text, tuple(variables), result)
