"""Our parser against Google's: the same trees at the same positions, and an error wherever the other has one.

Macros are expanded differently, so expressions that use them are compared by acceptance alone.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.plan.cel.parser import parse
from modelplane.plan.cel.syntax import (
    Bind,
    Call,
    CelError,
    Fold,
    Ident,
    ListExpr,
    Literal,
    MapExpr,
    Node,
    OptionalMap,
    Select,
    Source,
)
from modelplane.plan.cel.validate import walk
from modelplane.plan.cel.values import UInt
from tests.plan.examples import examples
from tests.plan.parsed_expr import tree_of

cel = pytest.importorskip("cel_expr_python.cel", reason="Google's CEL library is a development dependency")

VECTORS = Path(__file__).parent / "data" / "selectors.jsonl"
EXPRESSIONS = list(dict.fromkeys(json.loads(line)["expression"] for line in VECTORS.read_text().splitlines()))
MORE = [
    "a.b.c[1]['x'].d(e, f)",
    "!a && !(b || c) && d ? e : f ? g : h",
    "-a + -1 * -2.5 - (b - c) % 3",
    "1 + 2 * 3 - 4 / 5 < 6 == true",
    "a in [1, 2u, 0x1F, 0xFFu, 1e3, .5, 1.5e-3, null, b'x\\xff', r'\\d', '''a\n'b''', \"\\u00e9\\n\\101\"]",
    "{'a': 1, 'b': {'c': [1, {}]}, 1: 2}",
    "a[?b].?c.orValue(d)",
    "has(a.b.c) && has(a['x'].y)",
    ".a.b",
    "a // comment\n && b",
    "--a == a",
    "!!a",
    "a ? b : c || d && e",
    "((((a))))",
    "'é' + \"日本\" + foo",
    "[1, 2,]",
]
WRONG = [
    "", "a b", "a.", "a[1", "(a", "a)", "1 +", "a ? b", "a ? b :", "{'a'}", "{'a': }", "[1 2]", "a..b", "in a",
    "if", "a.1", "'a", '"""a', "'\\q'", "f(a,)", "f(,a)", "#", "a & b", "a = b", "99999999999999999999",
    "a.b.(c)", "!-a", "a ! b", "`a`", "1u2", "\x00",
]  # fmt: skip

optional = pytest.importorskip("cel_expr_python.ext.ext_optional")
ENV = cel.NewEnv(extensions=[optional.ExtOptional()])


def theirs(text: str) -> str | None:
    try:
        return tree_of(ENV.compile(text, disable_check=True).serialize())
    except RuntimeError:
        return None


def ours(text: str) -> Node | None:
    try:
        return parse(Source(text))
    except CelError:
        return None


def operands(node: Call) -> list[Node]:
    """The arguments; those of && and || with directly nested ones in their place."""
    if node.function not in ("_&&_", "_||_"):
        return node.args
    return [
        inner
        for one in node.args
        for inner in (operands(one) if isinstance(one, Call) and one.function == node.function else [one])
    ]


def shown(node: Node) -> str:
    match node:
        case Literal(UInt()):
            return f"{int(node.value)}u"
        case Literal(None):
            return "null"
        case Literal():
            return repr(node.value)
        case Ident():
            return f"{node.name}@{node.at}"
        case Select():
            if node.test:
                return f"has({shown(node.operand)}.{node.field})"
            return f"{shown(node.operand)}.{'?' if node.optional else ''}{node.field}@{node.at}"
        case Call():
            args = ", ".join(map(shown, operands(node)))
            if node.target is not None:
                return f"{shown(node.target)}.{node.function}({args})@{node.at}"
            return f"{node.function}({args})" + ("" if node.function in ("_&&_", "_||_") else f"@{node.at}")
        case ListExpr():
            return f"[{', '.join(map(shown, node.elements))}]"
        case MapExpr():
            return f"{{{', '.join(f'{shown(entry.key)}: {shown(entry.value)}' for entry in node.entries)}}}"
        case _:
            raise AssertionError(f"a macro has no comparable tree: {node}")


def has_macro(node: Node) -> bool:
    return any(isinstance(one, (Fold, Bind, OptionalMap)) for one in walk(node))


@pytest.mark.parametrize("text", EXPRESSIONS + MORE)
def test_the_tree_is_the_one_that_googles_parser_gives(text: str) -> None:
    node, expected = ours(text), theirs(text)
    assert (node is None) == (expected is None), text
    if node is not None and expected is not None and not has_macro(node):
        assert shown(node) == expected


@pytest.mark.parametrize("text", WRONG)
def test_what_is_no_expression_is_refused(text: str) -> None:
    assert ours(text) is None
    assert theirs(text) is None


ATOMS = st.sampled_from(
    ["a", "b.c", "1", "2.5", "'s'", "true", "null", "[1, a]", "{'k': a}", "f(a)", "a.g(b)", "a[0]", "3u", "-1"]
)


def _combine(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    operators = st.sampled_from(["+", "-", "*", "/", "%", "<", "<=", "==", "!=", "in", ">", ">="])
    return (
        st.tuples(inner, operators, inner).map(lambda t: f"{t[0]} {t[1]} {t[2]}")
        | inner.map(lambda t: f"({t})")
        | inner.map(lambda t: f"!({t})")
        | inner.map(lambda t: f"-({t})")
        | st.tuples(inner, inner, inner).map(lambda t: f"{t[0]} ? {t[1]} : {t[2]}")
        | st.tuples(inner, inner).map(lambda t: f"f({t[0]}, {t[1]})")
        | inner.map(lambda t: f"[{t}]")
    )


@examples(300)
@given(st.recursive(ATOMS, _combine, max_leaves=12))
def test_random_expressions_parse_alike(text: str) -> None:
    expected = theirs(text)
    node = ours(text)
    assert (node is None) == (expected is None), text
    if node is not None and expected is not None:
        assert shown(node) == expected


@examples(300)
@given(st.text(alphabet="ab1.()[],:?!&|<>=+-*/% '\"\\nrx_", max_size=14))
def test_random_text_is_accepted_alike(text: str) -> None:
    assert (ours(text) is None) == (theirs(text) is None), text
