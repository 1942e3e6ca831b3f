"""Rules over plain JSON, as schemas and readiness expressions use them."""

from __future__ import annotations

import pytest

from modelplane.plan.cel import Fault, RuleError, compile_rule

SELF = {
    "replicas": 3,
    "name": "llama",
    "labels": {"a/b": "1", "c": "2"},
    "members": [{"role": "Leader"}, {"role": "Worker", "nodes": 3}],
    "dash-ed": 1,
    "namespace": "ml",
    "double": 1.5,
}

TRUE = [
    ("self.replicas >= 1 && self.replicas <= 10", "numbers compare"),
    ("self.replicas < 3.5", "also across number types"),
    ("!has(self.phase)", "absence is tested"),
    ("has(self.members) && size(self.members) == 2", "size of a list"),
    ("self.members.exists(m, m.role == 'Worker' && m.nodes == 3)", "an error in one round is absorbed"),
    ("self.members.exists_one(m, m.role == 'Leader')", "exactly one"),
    ("self.members.all(m, m.role in ['Leader', 'Worker'])", "membership"),
    ("self.labels.all(k, !k.startsWith('modelplane.ai/'))", "keys of a map"),
    ("self.labels.all(k, k.matches('^[a-z/]+$') && size(self.labels[k]) <= 63)", "patterns"),
    ("self.members.filter(m, has(m.nodes)).map(m, m.nodes) == [3]", "filter and map"),
    ("self.name.split('').size() == 5 && self.name.contains('am')", "strings"),
    ("self == oldSelf", "equality of whole objects"),
    ("self.dash__dash__ed == 1", "escaped names are found"),
    ("self.__namespace__ == 'ml'", "reserved words too"),
    ("self.?nope.orValue(7) == 7", "optionals"),
    ("true || self.nope == 1", "|| absorbs an error on its right"),
    ("self.nope == 1 || true", "and on its left"),
    ("self.labels.exists(k, v, k == 'c' && v == '2')", "two variables"),
    ("quantity('1Gi').isGreaterThan(quantity('1G'))", "quantities"),
    ("string(self.replicas) + '/' + string(self.double) == '3/1.5'", "conversions"),
    ("(self.replicas > 5 ? 'many' : 'few') == 'few'", "conditional"),
    ("type(self.replicas) == int && type(self.name) == string", "types"),
    ("self.replicas - 5 == -2 && -7 / 2 == -3 && -7 % 2 == -1", "division truncates towards zero"),
    ("'%s has %d'.format([self.name, self.replicas]) == 'llama has 3'", "format"),
    ("timestamp('2026-11-29T10:00:00Z') - timestamp('2026-11-29T09:00:00Z') == duration('1h')", "times"),
    (r"'\u00e9' == 'é' && r'\d' == '\\d' && b'\xff' != b'a'", "escapes"),
    ("{'a': 1, 'b': 2}.transformList(k, v, v + 1) == [2, 3]", "transformList"),
    ("[1, 2, 3][1] == 2 && {'a': {1: 'x'}}.a[1] == 'x'", "index"),
]


@pytest.mark.parametrize(("text", "reason"), TRUE, ids=[case[1] for case in TRUE])
def test_a_rule_holds(text: str, reason: str) -> None:
    assert compile_rule(text).evaluate(self=SELF, oldSelf=SELF) is True, reason


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("self.nope == 1", "no such key: nope"),
        ("self.members[5].role == 'x'", "index out of bounds: 5"),
        ("self.replicas / 0 == 1", "division by zero"),
        ("9223372036854775807 + self.replicas == 0", "integer overflow"),
        ("self.name > 1", "no such overload"),
        ("self.name && true", "no such overload"),
        ("self.name", "not a bool"),
        ("self.name.startsWith(self.replicas)", r"no such overload: startsWith\(string, int\)"),
    ],
)
def test_an_error_at_run_time_is_a_fault_with_its_reason(text: str, message: str) -> None:
    rule = compile_rule(text)
    with pytest.raises(Fault, match=message):
        rule.evaluate(self=SELF, oldSelf=SELF)
    assert not rule.holds(self=SELF, oldSelf=SELF)


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("self.a == othr", 1, 11, "undeclared reference to 'othr'"),
        ("true &&\n  foo(1)", 2, 6, "undeclared reference to 'foo'"),
        ("1 + 'a' == 2", 1, 3, r"found no matching overload for '_\+_' applied to '\(int, string\)'"),
        ("[1, 'a'].size() == 2", 1, 5, "expected type 'int' but found 'string'"),
        ("self.a ==", 1, 10, "mismatched input '<EOF>'"),
        ("has(self)", 1, 5, r"invalid argument to has\(\) macro"),
        ("self.x.all(1, true)", 1, 12, "argument is not an identifier"),
        ("self.x.matches('[')", 1, 16, "invalid matches argument"),
        ("'a' + \"b", 1, 7, "token recognition error"),
        ("if == 1", 1, 1, "reserved identifier"),
        ("size(self.x)", 0, 0, "must evaluate to bool, not int"),
        ("int('x') == 1", 0, 0, "type conversion error from 'string' to 'int'"),
        ("(" * 80 + "true" + ")" * 80, 1, 61, "recursion limit"),
        ("self" + ".a" * 400, 1, 505, "recursion limit"),
        ("1" + " + 1" * 300 + " == 301", 1, 1003, "recursion limit"),
    ],
)
def test_a_rule_that_does_not_compile_is_refused_with_its_position(
    text: str, line: int, column: int, message: str
) -> None:
    with pytest.raises(RuleError, match=message) as refusal:
        compile_rule(text)
    assert (refusal.value.issues[0].line, refusal.value.issues[0].column) == (line, column)


def test_long_chains_of_or_are_no_deep_trees() -> None:
    assert compile_rule(" || ".join(["self.no == 1"] * 900 + ["true"])).holds(self={}, oldSelf=None)


@pytest.mark.parametrize(
    "text",
    [
        "lists.all(a, lists.all(b, lists.all(c, lists.all(d, a + b + c + d < 10000))))",
        "cel.bind(a, text + text, cel.bind(b, a + a, cel.bind(c, b + b, cel.bind(d, c + c + c + c, d + d + d + d + d != ''))))",
    ],
    ids=["nested loops", "doubling text"],
)
def test_an_expression_that_would_run_for_long_is_cut_off(text: str) -> None:
    rule = compile_rule(text, ("lists", "text"))
    with pytest.raises(Fault, match="cost limit exceeded"):
        rule.evaluate(lists=list(range(100)), text="x" * 100_000)


def test_the_same_rule_is_compiled_once() -> None:
    assert compile_rule("self.a == 1") is compile_rule("self.a == 1")


def test_a_message_expression_gives_text() -> None:
    rule = compile_rule("'not ' + string(self.replicas)", ("self",), result="string")
    assert rule.evaluate(self=SELF) == "not 3"


@pytest.mark.parametrize(
    "text",
    [
        "items.all(x, x in items || true)",
        "sets.contains(items, items)",
        "items.exists(x, text.matches('b'))",
        "items.all(x, text + 'a' != text)",
    ],
)
def test_large_values_are_charged_by_their_size(text: str) -> None:
    rule = compile_rule(text, ("items", "text"))
    with pytest.raises(Fault, match="cost limit exceeded"):
        rule.evaluate(items=[f"i{number}" for number in range(20_000)], text="x" * 200_000)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 50 + "1" + ("+1" * 200 + ")") * 50 + " == 0",
        "9" * 5000 + " == 1",
        "[" * 200,
        "!" * 300 + "true",
        "a" + "[0]" * 300,
        "true ? " * 200 + "true",
    ],
    ids=["nested chains", "a number of 5000 digits", "brackets", "operators", "indexes", "conditionals"],
)
def test_no_text_exhausts_the_interpreter(text: str) -> None:
    with pytest.raises(RuleError):
        compile_rule(text, ("a",))


def test_a_quantity_of_many_digits_is_an_error_and_no_crash() -> None:
    assert compile_rule("isQuantity(text)", ("text",)).evaluate(text="9" * 9000) is False
    assert compile_rule("quantity(text).isGreaterThan(quantity('1'))", ("text",)).evaluate(text="9" * 3000) is True
