"""Our evaluator against Google's, on random expressions of the standard language.

The other library runs here only without Python callbacks, which is what leaks in it. Text is trimmed before it becomes a
number, since C++ passes over space there and Kubernetes does not; ``cel.bind`` is left out, since beside a comprehension
that library gives it the comprehension's value.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.plan.cel.program import Program
from modelplane.plan.cel.syntax import CelError, Fault
from modelplane.plan.cel.values import UInt, Value
from tests.plan.examples import examples

cel = pytest.importorskip("cel_expr_python.cel", reason="Google's CEL library is a development dependency")
strings = pytest.importorskip("cel_expr_python.ext.ext_strings")
optional = pytest.importorskip("cel_expr_python.ext.ext_optional")
ENV = cel.NewEnv(extensions=[strings.ExtStrings(), optional.ExtOptional()])


class Writer:
    """Writes well-typed expressions of a bounded depth."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def one(self, *choices: Callable[[], str]) -> str:
        return self.random.choice(choices)()

    def pick(self, *texts: str) -> str:
        return self.random.choice(texts)

    def int(self, d: int) -> str:
        if d <= 0:
            return self.pick("0", "1", "2", "-3", "7", "9223372036854775807")
        return self.one(
            lambda: f"({self.int(d - 1)} {self.pick('+', '-', '*', '/', '%')} {self.int(d - 1)})",
            lambda: f"size({self.list(d - 1)})",
            lambda: f"{self.string(d - 1)}.size()",
            lambda: f"({self.bool(d - 1)} ? {self.int(d - 1)} : {self.int(d - 1)})",
            lambda: f"{self.list(d - 1)}[{self.int(0)}]",
            lambda: f"int(dyn({self.double(d - 1)}))",
            lambda: f"int(dyn({self.string(d - 1)}.trim()))",
            lambda: f"{self.string(d - 1)}.indexOf({self.string(d - 1)})",
            lambda: f"-({self.int(d - 1)})",
            lambda: f"{self.map(d - 1)}.a",
            lambda: f"{self.map(d - 1)}[?'b'].orValue({self.int(d - 1)})",
        )

    def double(self, d: int) -> str:
        if d <= 0:
            return self.pick("0.0", "1.5", "-2.25", "1e30", "3.0", "1234567.5", "0.00001")
        return self.one(
            lambda: f"({self.double(d - 1)} {self.pick('+', '-', '*', '/')} {self.double(d - 1)})",
            lambda: f"double({self.int(d - 1)})",
            lambda: f"double(dyn({self.string(d - 1)}.trim()))",
        )

    def string(self, d: int) -> str:
        if d <= 0:
            return self.pick("''", "'a'", "'Hello'", "'1.5'", "'7'", "'日本'", "'a,b,c'", "' x '")
        return self.one(
            lambda: f"({self.string(d - 1)} + {self.string(d - 1)})",
            lambda: f"string({self.int(d - 1)})",
            lambda: f"string({self.double(0)})",
            lambda: f"string({self.bool(d - 1)})",
            lambda: f"{self.string(d - 1)}.{self.pick('lowerAscii', 'upperAscii', 'trim')}()",
            lambda: f"{self.string(d - 1)}.replace({self.string(d - 1)}, {self.string(d - 1)})",
            lambda: f"{self.string(d - 1)}.substring({self.int(0)})",
            lambda: f"{self.string(d - 1)}.charAt({self.pick('0', '1', '5')})",
            lambda: f"{self.string(d - 1)}.split(',')[0]",
        )

    def list(self, d: int) -> str:
        if d <= 0:
            return self.pick("[1]", "[1, 2, 3]", "[3, 0]")
        return self.one(
            lambda: f"({self.list(d - 1)} + {self.list(d - 1)})",
            lambda: f"[{self.int(d - 1)}, {self.int(d - 1)}]",
            lambda: f"{self.list(d - 1)}.filter(x, {self.test('x', d - 1)})",
            lambda: f"{self.list(d - 1)}.map(x, x {self.pick('+', '*', '/')} {self.int(d - 1)})",
            lambda: f"{self.list(d - 1)}.map(y, {self.test('y', d - 1)}, y)",
        )

    def map(self, d: int) -> str:
        if d <= 0:
            return self.pick("{'a': 1}", "{'b': 2, 'c': 3}")
        return f"{{'a': {self.int(d - 1)}, 'b': {self.int(d - 1)}}}"

    def test(self, name: str, d: int) -> str:
        return self.one(
            lambda: f"{name} {self.pick('<', '<=', '==', '!=', '>')} {self.int(d)}",
            lambda: f"{self.int(0)} / {name} == 1",
            lambda: f"{name} in {self.list(d)}",
        )

    def bool(self, d: int) -> str:
        if d <= 0:
            return self.pick("true", "false")
        return self.one(
            lambda: f"({self.bool(d - 1)} {self.pick('&&', '||')} {self.bool(d - 1)})",
            lambda: f"!{self.bool(d - 1)}",
            lambda: f"({self.int(d - 1)} {self.pick('<', '<=', '==', '!=', '>', '>=')} {self.int(d - 1)})",
            lambda: f"(dyn({self.int(d - 1)}) {self.pick('<', '<=', '==', '!=', '>')} dyn({self.double(d - 1)}))",
            lambda: f"({self.string(d - 1)} {self.pick('<', '==', '!=', '>=')} {self.string(d - 1)})",
            lambda: f"({self.list(d - 1)} == {self.list(d - 1)})",
            lambda: f"({self.int(d - 1)} in {self.list(d - 1)})",
            lambda: f"{self.list(d - 1)}.{self.pick('all', 'exists', 'exists_one')}(x, {self.test('x', d - 1)})",
            lambda: f"{self.string(d - 1)}.{self.pick('startsWith', 'endsWith', 'contains')}({self.string(d - 1)})",
            lambda: f"{self.string(d - 1)}.matches('^[a-z]+$')",
            lambda: f"(has({self.map(d - 1)}.a) == ('a' in {self.map(d - 1)}))",
            lambda: f"({self.map(d - 1)} == {self.map(d - 1)})",
        )


def plain(value: Value) -> Value:
    if isinstance(value, UInt):
        return int(value)
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


@examples(500)
@given(
    st.randoms(use_true_random=False), st.integers(1, 4), st.sampled_from(["int", "double", "string", "list", "bool"])
)
def test_random_expressions_have_the_value_that_googles_library_gives(random: Random, depth: int, kind: str) -> None:
    text = getattr(Writer(random), kind)(depth)
    theirs = ENV.compile(text).eval(data={})
    try:
        program = Program(text, {})
    except CelError as error:
        # Kubernetes converts constants before it runs anything, so even one that nothing would ask for ends it.
        if not str(error).startswith("program instantiation failed"):
            raise
        return
    try:
        ours = plain(program.run(()))
    except Fault as fault:
        # Go refuses a text whose number is too large for a double, as the vectors show; Google's C++ makes it infinite.
        if "from 'string' to 'double'" not in str(fault):
            assert "ERROR" in theirs.type().name().upper(), f"{text} is {theirs.plain_value()}"
        return
    assert "ERROR" not in theirs.type().name().upper(), f"{text} is an error: {theirs.value()}"
    expected = theirs.plain_value()
    if isinstance(expected, float) and math.isnan(expected):
        assert isinstance(ours, float)
        assert math.isnan(ours)
    else:
        assert ours == expected, text
