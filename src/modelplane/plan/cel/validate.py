"""What Kubernetes checks beside types: constant patterns, durations and times have to be some, and formats fit what they get."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, assert_never

from modelplane.plan.cel.functions.formatting import misfit
from modelplane.plan.cel.functions.regexes import pattern
from modelplane.plan.cel.functions.times import to_duration, to_timestamp
from modelplane.plan.cel.syntax import (
    Bind,
    Call,
    CelError,
    Fault,
    Fold,
    Ident,
    Issue,
    ListExpr,
    Literal,
    MapExpr,
    Node,
    OptionalMap,
    Select,
    Source,
)
from modelplane.plan.cel.types import Type

_READ: Final[Mapping[str, Callable[[Any], object]]] = {
    "matches": lambda value: pattern(str(value)),
    "duration": to_duration,
    "timestamp": to_timestamp,
}


def validate(source: Source, tree: Node) -> None:
    """Raises `CelError` for constant arguments that cannot be read, and for formats that do not fit. Expects a checked tree."""
    issues = []
    for node in walk(tree):
        if not isinstance(node, Call) or not node.args:
            continue
        constant, read = node.args[-1], _READ.get(node.function)
        if read is not None and isinstance(constant, Literal):
            try:
                read(constant.value)
            except Fault:
                issues.append(source.issue(constant.at, f"invalid {node.function} argument"))
        elif node.function == "format" and isinstance(node.target, Literal) and isinstance(node.args[0], ListExpr):
            fault = misfit(str(node.target.value), node, node.args[0].elements)
            issues += [source.issue(fault[0].at, fault[1])] if fault else []
    issues += _mixed(source, tree)
    if issues:
        raise CelError(source, issues)


def _mixed(source: Source, node: Node) -> Iterator[Issue]:
    """Lists and maps whose parts are of different types. What ``format`` gets may be anything."""
    if isinstance(node, Call) and node.function == "format":
        return
    if isinstance(node, ListExpr):
        yield from _uneven(source, [(child, place in node.optional) for place, child in enumerate(node.elements)])
    elif isinstance(node, MapExpr):
        yield from _uneven(source, [(entry.key, False) for entry in node.entries])
        yield from _uneven(source, [(entry.value, entry.optional) for entry in node.entries])
    for child in children(node):
        yield from _mixed(source, child)


def _uneven(source: Source, parts: list[tuple[Node, bool]]) -> Iterator[Issue]:
    types = [_inner(node) if optional else node.type for node, optional in parts]
    for (node, _), found in zip(parts, types, strict=True):
        if found != types[0]:
            yield source.issue(node.at, f"expected type '{types[0]}' but found '{found}'")
            return


def _inner(node: Node) -> Type | None:
    return node.type.params[0] if node.type is not None and node.type.params else node.type


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
