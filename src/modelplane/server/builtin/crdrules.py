"""Rules of a definition's schema, judged when it is written: does each compile against the schema, and can it be afforded.

The words, the places and the figures are kube-apiserver's. A rule that stands in a schema which is wrong elsewhere is not looked
at: its types would be guesses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, NamedTuple

from modelplane.plan.cel.judging import Judged, judge
from modelplane.plan.cel.rules import RuleError
from modelplane.plan.cel.sizes import LIMIT
from modelplane.plan.cel.types import Type, optional_of
from modelplane.server.schema.declared import Declared, declared, escaped
from modelplane.server.schema.errors import ErrorType, FieldError, supported
from modelplane.server.schema.fieldpaths import field_path

RULES: Final = "x-kubernetes-validations"
PER_RULE: Final = 10_000_000
PER_DEFINITION: Final = 100_000_000
_NAMED_AS_DEAR: Final = 4
_REASONS: Final = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_NAMED: Final = "selfType"
"""What the type of ``self`` is called; kube-apiserver adds a number that nobody can know."""

Schema = Mapping[str, Any]


def check(schema: Schema, path: str) -> list[FieldError]:
    """Everything that is wrong with the rules of a structural schema."""
    return judged(schema, path).errors if has_rules(schema) else []


class Judgement(NamedTuple):
    """What is wrong with the rules of a schema, and the most that each may cost, by its path."""

    errors: list[FieldError]
    costs: Mapping[str, int]


def judged(schema: Schema, path: str) -> Judgement:
    """All rules of a structural schema."""
    walk = _Walk()
    errors = walk.schema(schema, path, _Place(schema, None, None, 1), "")
    return Judgement([*errors, *walk.refused, *walk.total(path)], walk.costs)


def has_rules(schema: object) -> bool:
    """Whether there is any rule in a schema."""
    if not isinstance(schema, dict):
        return False
    below = [schema.get("items"), schema.get("additionalProperties"), *(schema.get("properties") or {}).values()]
    return bool(schema.get(RULES)) or any(map(has_rules, below))


@dataclass
class _Place:
    """A place of the schema: how it is reached from the one above, and how often it can be there (None: without bound)."""

    schema: Schema
    above: _Place | None
    name: str | None
    """Of a property; None for the entries of a list or map."""
    times: int | None

    @property
    def within_rules(self) -> bool:
        return bool(self.schema.get(RULES)) or (self.above is not None and self.above.within_rules)

    @cached_property
    def declared(self) -> Declared | None:
        """What rules may know of it: a part of what those above know, if there are any."""
        if self.above is not None and self.above.within_rules and self.above.declared is not None:
            found = self.above.declared
            part = found.item if self.name is None else found.fields.get(escaped(self.name) or "")
            if part is not None:
                return part
        return declared(self.schema, root=self.above is None or bool(self.schema.get("x-kubernetes-embedded-resource")))

    @cached_property
    def self_type(self) -> Type:
        assert self.declared is not None
        return self.declared.named(_NAMED)

    def below(self, schema: Schema, name: str | None = None) -> _Place:
        most = self._most()
        times = None if self.times is None or most is None else min(self.times * most, LIMIT)
        return _Place(schema, self, name, times)

    def _most(self) -> int | None:
        """How many entries there can be below each."""
        limit: Any = 1
        if self.schema.get("type") == "array":
            limit = self.schema.get("maxItems")
        elif self.schema.get("type") == "object" and "additionalProperties" in self.schema:
            limit = self.schema.get("maxProperties")
        return None if limit is None else max(int(limit), 0)


@dataclass
class _Walk:
    """The costs of a definition's rules while they are judged, and what is refused for rules alone."""

    refused: list[FieldError] = field(default_factory=list)
    costs: dict[str, int] = field(default_factory=dict)

    def schema(self, schema: Schema, path: str, place: _Place, uncorrelated: str) -> list[FieldError]:
        """Faults of the schema here and below; with any of them the rules here are not judged. ``uncorrelated`` is the list
        above, if any, whose entries cannot be compared with what they were."""
        errors: list[FieldError] = []
        values = schema.get("additionalProperties")
        if isinstance(values, dict):
            errors += self.schema(values, f"{path}.additionalProperties", place.below(values), uncorrelated)
        for name, child in (schema.get("properties") or {}).items():
            errors += self.schema(child, f"{path}.properties[{name}]", place.below(child, name), uncorrelated)
        items = schema.get("items")
        if isinstance(items, dict):
            apart = uncorrelated or (path if schema.get("x-kubernetes-list-type") != "map" else "")
            errors += self.schema(items, f"{path}.items", place.below(items), apart)
        rules = schema.get(RULES) or ()
        for position, rule in enumerate(rules):
            errors += _malformed(rule, schema, f"{path}.{RULES}[{position}]")
        if not errors:
            self.refused += self._judge(rules, path, place, uncorrelated)
        return errors

    def _judge(self, rules: Sequence[Schema], path: str, place: _Place, uncorrelated: str) -> Iterator[FieldError]:
        if rules and place.declared is None:
            told = "internal error: failed to construct type information for x-kubernetes-validations rules: "
            message = f"{told}unable to convert structural schema to CEL declarations"
            yield FieldError(path=f"{path}.{RULES}", type=ErrorType.INTERNAL, message=message)
            return
        for position, rule in enumerate(rules):
            yield from self._rule(rule, f"{path}.{RULES}[{position}]", place, uncorrelated)

    def _rule(self, rule: Schema, path: str, place: _Place, uncorrelated: str) -> Iterator[FieldError]:
        assert place.declared is not None
        try:
            judged = _compiled(rule, "rule", place)
        except RuleError as error:
            yield _invalid(f"{path}.rule", _written(rule), str(error))
            yield from _about_old(rule, error.names, path, uncorrelated)
            return
        times = place.declared.times if place.times is None else place.times
        yield from self._paid(min(judged.cost * times, LIMIT), "estimated rule cost", f"{path}.rule")
        if rule.get("messageExpression"):
            try:
                message = _compiled(rule, "messageExpression", place)
            except RuleError as error:
                yield _invalid(f"{path}.messageExpression", _written(rule), str(error))
            else:
                told = "estimated messageExpression cost"
                yield from self._paid(message.cost, told, f"{path}.messageExpression")
        yield from _about_old(rule, judged.names, path, uncorrelated)

    def _paid(self, cost: int, what: str, path: str) -> Iterator[FieldError]:
        self.costs[path] = cost
        if cost > PER_RULE:
            yield _forbidden(path, _over(what, cost, PER_RULE))

    def total(self, path: str) -> Iterator[FieldError]:
        """What is to be said when the rules are too dear together."""
        spent = min(sum(self.costs.values()), LIMIT)
        if spent <= PER_DEFINITION:
            return
        part = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
        dearest = sorted(self.costs, key=lambda place: -self.costs[place])[:_NAMED_AS_DEAR]
        yield from (_forbidden(place, part) for place in dearest if self.costs[place] >= PER_DEFINITION // 100)
        whole = f"{RULES} estimated rule cost total for entire OpenAPIv3 schema"
        yield _forbidden(path, _over(whole, spent, PER_DEFINITION))


def _about_old(rule: Schema, names: frozenset[str], path: str, uncorrelated: str) -> Iterator[FieldError]:
    """Whether a rule asks for the old value where there is one, and says so."""
    if "oldSelf" not in names:
        if rule.get("optionalOldSelf") is not None:
            message = "may not be set if oldSelf is not used in rule"
            yield _invalid(f"{path}.optionalOldSelf", rule["optionalOldSelf"], message)
    elif uncorrelated:
        message = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {uncorrelated}"
        yield _invalid(f"{path}.rule", rule["rule"], message)


def _compiled(rule: Schema, what: str, place: _Place) -> Judged:
    assert place.declared is not None
    own = place.self_type
    variables = {"self": own, "oldSelf": optional_of(own) if rule.get("optionalOldSelf") else own}
    return judge(rule[what], variables, place.declared.size, "bool" if what == "rule" else "string")


def _over(what: str, cost: int, limit: int) -> str:
    factor = cost / limit
    much = "more than 100x" if factor > 100 else f"{factor:.6f}x" if factor < 1.5 else f"{factor:.1f}x"
    return (
        f"{what} exceeds budget by factor of {much} (try simplifying the rule, or adding maxItems, "
        "maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )


def _malformed(rule: Schema, schema: Schema, path: str) -> Iterator[FieldError]:
    """What a rule lacks before anybody reads its expression."""
    text, message, expression, place = (
        rule.get(name) or "" for name in ("rule", "message", "messageExpression", "fieldPath")
    )
    if not text.strip():
        yield _required(f"{path}.rule", "rule is not specified")
    elif message and not message.strip():
        yield _invalid(f"{path}.message", message, "must be non-empty if specified")
    elif _broken(message.strip()):
        yield _invalid(f"{path}.message", message, "must not contain line breaks")
    elif _broken(text.strip()) and not message:
        yield _required(f"{path}.message", "message must be specified if rule contains line breaks")
    if expression and not expression.strip():
        yield _required(f"{path}.messageExpression", "messageExpression must be non-empty if specified")
    reason = rule.get("reason")
    if reason is not None and reason not in _REASONS:
        yield supported(f"{path}.reason", reason, _REASONS)
    if place and not place.strip():
        yield _invalid(f"{path}.fieldPath", place, "must be non-empty if specified")
    if _broken(place):
        yield _invalid(f"{path}.fieldPath", place, "must not contain line breaks")
    if place and field_path(schema, place) is None:
        yield _invalid(f"{path}.fieldPath", place, "must be a valid path")


def _broken(text: str) -> bool:
    return re.search(r"[\n\r]", text) is not None


def _written(rule: Schema) -> dict[str, Any]:
    """A rule as kube-apiserver quotes one."""
    texts = {name: rule.get(name[0].lower() + name[1:]) or "" for name in ("Rule", "Message", "MessageExpression")}
    rest = {"Reason": rule.get("reason"), "FieldPath": rule.get("fieldPath") or ""}
    return {**texts, **rest, "OptionalOldSelf": rule.get("optionalOldSelf")}


def _required(path: str, message: str) -> FieldError:
    return FieldError(path=path, type=ErrorType.REQUIRED, message=message)


def _invalid(path: str, value: object, message: str) -> FieldError:
    return FieldError(path=path, type=ErrorType.INVALID, bad_value=value, message=message)


def _forbidden(path: str, message: str) -> FieldError:
    return FieldError(path=path, type=ErrorType.FORBIDDEN, message=message)
