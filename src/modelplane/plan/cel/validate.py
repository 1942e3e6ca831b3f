"""What Kubernetes checks beside types: constant patterns have to be patterns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from modelplane.plan.cel.functions.regexes import pattern
from modelplane.plan.cel.syntax import (
    Bind,
    Call,
    CelError,
    Fault,
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


def validate(source: Source, tree: Node) -> None:
    """Raises `CelError` for a constant argument of ``matches`` that is no RE2 pattern."""
    issues = []
    for node in walk(tree):
        if isinstance(node, Call) and node.function == "matches" and isinstance(node.args[-1], Literal):
            constant = node.args[-1]
            try:
                pattern(str(constant.value))
            except Fault:
                issues.append(source.issue(constant.at, "invalid matches argument"))
    if issues:
        raise CelError(source, issues, "compilation failed: ")


def walk(node: Node) -> Iterator[Node]:
    """The node and everything under it."""
    yield node
    for child in children(node):
        yield from walk(child)


def children(node: Node) -> list[Node]:
    match node:
        case Literal() | Ident():
            return []
        case Select():
            return [node.operand]
        case Call():
            return [*([node.target] if node.target is not None else []), *node.args]
        case ListExpr():
            return node.elements
        case MapExpr():
            return [part for entry in node.entries for part in (entry.key, entry.value)]
        case Fold():
            return [node.range, *([node.filter] if node.filter is not None else []), node.body]
        case Bind() | OptionalMap():
            return [node.value, node.body]
    assert_never(node)
