"""CEL's macros: calls that are rewritten before anything is checked.

The standard ones, those with two variables, ``cel.bind`` and the optional ones, as Kubernetes offers them.
"""

from __future__ import annotations

from typing import Final

from modelplane.plan.cel.syntax import (
    Bind,
    Call,
    CelError,
    Fold,
    Ident,
    Literal,
    MapExpr,
    Node,
    OptionalMap,
    Select,
    Source,
)

_QUANTIFIERS: Final = {"all": "all", "exists": "exists", "exists_one": "existsOne"}


def expand(source: Source, call: Call) -> Node:
    """The tree that the call stands for, or the call itself. Raises `CelError` on a malformed macro."""
    arity = len(call.args)
    if call.target is None:
        return _has(source, call) if call.function == "has" and arity == 1 else call
    if call.function in _QUANTIFIERS and arity in (2, 3):
        return _fold(source, call, _QUANTIFIERS[call.function], 1 if arity == 2 else 2, filtered=False)
    if call.function == "existsOne" and arity == 3:
        return _fold(source, call, "existsOne", 2, filtered=False)
    if call.function == "map" and arity in (2, 3):
        return _fold(source, call, "map", 1, filtered=arity == 3)
    if call.function == "filter" and arity == 2:
        return _fold(source, call, "filter", 1, filtered=False)
    if call.function in ("transformList", "transformMap", "transformMapEntry") and arity in (3, 4):
        return _fold(source, call, call.function, 2, filtered=arity == 4)
    if call.function == "sortBy" and arity == 2:
        return _sort_by(source, call)
    if call.function == "bind" and arity == 3 and _is_cel(call.target):
        return Bind(
            _bound(source, call, "cel.bind() variable names must be simple identifiers"),
            call.args[1],
            call.args[2],
            call.at,
        )
    if call.function in ("optMap", "optFlatMap") and arity == 2:
        name = _bound(source, call, f"{call.function}() variable name must be a simple identifier")
        return OptionalMap(name, call.target, call.args[1], call.function == "optFlatMap", call.at)
    return call


def _is_cel(target: Node | None) -> bool:
    return isinstance(target, Ident) and target.name == "cel" and not target.absolute


def _has(source: Source, call: Call) -> Node:
    (argument,) = call.args
    if not isinstance(argument, Select) or argument.test or argument.optional:
        raise CelError(source, [source.issue(argument.at, "invalid argument to has() macro")])
    return Select(argument.operand, argument.field, argument.at, test=True)


def _fold(source: Source, call: Call, kind: str, variables: int, *, filtered: bool) -> Node:
    assert call.target is not None
    complaint = "argument is not an identifier" if variables == 1 else "argument must be a simple name"
    names = [_variable(source, argument, complaint) for argument in call.args[:variables]]
    if variables == 2 and names[0] == names[1]:
        raise CelError(source, [source.issue(call.args[1].at, f"duplicate variable name: {names[0]}")])
    return Fold(
        kind,
        call.target,
        names[0] if variables == 2 else None,
        names[-1],
        call.args[variables] if filtered else None,
        call.args[-1],
        call.at,
    )


def _sort_by(source: Source, call: Call) -> Node:
    """The list under a name, and its keys as a list beside it."""
    assert call.target is not None
    if isinstance(call.target, Literal | MapExpr):
        message = "sortBy can only be applied to a list, identifier, comprehension, call or select expression"
        raise CelError(source, [source.issue(call.target.at, message)])
    name = "@sortBy"
    keys = Fold(
        "map",
        Ident(name, call.at),
        None,
        _variable(source, call.args[0], "argument is not an identifier"),
        None,
        call.args[1],
        call.at,
    )
    return Bind(name, call.target, Call("@sortByAssociatedKeys", Ident(name, call.at), [keys], call.at), call.at)


def _bound(source: Source, call: Call, complaint: str) -> str:
    """The name of a value, which these macros ask for once themselves."""
    name = _variable(source, call.args[0], complaint)
    if name.startswith("."):
        raise CelError(source, [source.issue(call.at, f"undeclared reference to '{name}' (in container '')")])
    return name


def _variable(source: Source, node: Node, complaint: str) -> str:
    if not isinstance(node, Ident):
        raise CelError(source, [source.issue(node.at, complaint)])
    return f".{node.name}" if node.absolute else node.name  # which nothing can name
