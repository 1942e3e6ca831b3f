"""x-kubernetes-validations: CEL rules over ``self`` and ``oldSelf``.

The engine is handed in, so that this room compiles no language: it sees JSON values, with timestamps and durations
left as strings of their format for the engine to turn into its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from modelplane.api.meta import Object
from modelplane.server.schema.errors import ErrorType, FieldError, Omitted
from modelplane.server.schema.node import Node
from modelplane.server.schema.validate import correlate, join

Evaluate = Callable[[Mapping[str, object]], object]
"""Takes ``self`` and, for a transition rule, ``oldSelf``; gives the value or raises with the reason as its text."""


class RuleEngine(Protocol):
    """Compiles an expression for a place of a schema; raises with the compiler's words.

    ``result`` is bool, or string for a message expression. With ``optional_old``, ``oldSelf`` is an optional.
    """

    def compile(self, expression: str, node: Node, *, result: str = "bool", optional_old: bool = False) -> Evaluate: ...


_REASONS = {
    "FieldValueInvalid": ErrorType.INVALID,
    "FieldValueForbidden": ErrorType.FORBIDDEN,
    "FieldValueRequired": ErrorType.REQUIRED,
    "FieldValueDuplicate": ErrorType.DUPLICATE,
}


class Rules:
    """The rules of one schema, compiled when they first meet a value."""

    def __init__(self, node: Node, engine: RuleEngine) -> None:
        self._node = node
        self._engine = engine
        self._compiled: dict[tuple[int, str, str], Evaluate] = {}
        self._has_rules: dict[int, bool] = {}
        self.present = self._present(node)

    def check(self, value: object, old: object, path: str = "") -> list[FieldError]:
        """Errors of every rule that says no, or that fails while it runs; ``path`` is where the value stands."""
        errors: list[FieldError] = []
        self._walk(self._node, value, old, path, errors)
        return errors

    def _present(self, node: Node) -> bool:
        known = self._has_rules.get(id(node))
        if known is None:
            self._has_rules[id(node)] = bool(node.rules)
            below = [*node.properties.values(), node.additional, node.items]
            known = bool(node.rules) or any(child is not None and self._present(child) for child in below)
            self._has_rules[id(node)] = known
        return known

    def _walk(self, node: Node, value: object, old: object, path: str, errors: list[FieldError]) -> None:
        if value is None or not self._present(node):
            return
        for rule in node.rules:
            error = self._judge(node, rule, value, old, path)
            if error is not None:
                errors.append(error)
        if isinstance(value, dict):
            before = old if isinstance(old, dict) else {}
            for name, item in value.items():
                child = node.field(name)
                if child is not None and self._present(child):
                    where = join(path, name) if name in node.properties else f"{path}[{name}]"
                    self._walk(child, item, before.get(name), where, errors)
        elif isinstance(value, list) and node.items is not None:
            for position, (item, former) in enumerate(zip(value, correlate(node, value, old), strict=True)):
                self._walk(node.items, item, former, f"{path}[{position}]", errors)

    def _judge(self, node: Node, rule: Object, value: object, old: object, path: str) -> FieldError | None:
        transition = "oldSelf" in rule["rule"]
        if transition and old is None and not rule.get("optionalOldSelf"):
            return None
        if not transition and old is not None and old == value:
            return None
        variables = {"self": value, "oldSelf": old} if transition else {"self": value}
        where = join(path, rule["fieldPath"].lstrip(".")) if rule.get("fieldPath") else path
        try:
            if self._evaluator(node, rule, "rule")(variables) is True:
                return None
        except Exception as error:  # the engine's own words, whatever it raises, are for the user
            kind = "" if node.type == "int-or-string" else node.type
            return FieldError(path=path, type=ErrorType.INVALID, bad_value=kind, message=_failed(str(error), rule))
        return self._error(rule, value, where, self._message(node, rule, variables))

    def _message(self, node: Node, rule: Object, variables: Mapping[str, object]) -> str:
        if rule.get("messageExpression"):
            try:
                told = self._evaluator(node, rule, "messageExpression")(variables)
            except Exception:  # a message that cannot be made falls back to the static one
                told = None
            if isinstance(told, str) and told.strip() and "\n" not in told:
                return told
        return str(rule.get("message") or f"failed rule: {rule['rule'].strip()}")

    @staticmethod
    def _error(rule: Object, value: object, path: str, message: str) -> FieldError:
        reason = _REASONS.get(rule.get("reason", ""), ErrorType.INVALID)
        bad = Omitted.OMITTED if isinstance(value, dict | list) else value
        told = "" if reason is ErrorType.DUPLICATE else message
        return FieldError(path=path, type=reason, bad_value=bad, message=told)

    def _evaluator(self, node: Node, rule: Object, what: str) -> Evaluate:
        key = (id(node), what, rule[what])
        if key not in self._compiled:
            result = "bool" if what == "rule" else "string"
            optional = bool(rule.get("optionalOldSelf"))
            self._compiled[key] = self._engine.compile(rule[what], node, result=result, optional_old=optional)
        return self._compiled[key]


def _failed(why: str, rule: Object) -> str:
    """What is said of a rule that ends in an error."""
    told = str(rule.get("message") or rule["rule"]).strip()
    if why.startswith("no such overload"):
        signature = "call arguments did not match a supported operator, function or macro signature"
        return f"'{why}': {signature} for rule: {told}"
    if why.startswith("operation cancelled: actual cost limit exceeded"):
        return f"'{why}': no further validation rules will be run due to call cost exceeds limit for rule: {told}"
    return f"{why} evaluating rule: {told}"
