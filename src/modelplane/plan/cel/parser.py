"""CEL's grammar: a precedence climber that gives the tree of `syntax`, macros expanded.

Nesting is bounded, so that no text can exhaust the interpreter's stack.
"""

from __future__ import annotations

from typing import Final

from modelplane.plan.cel.lexer import RESERVED, Token, tokens
from modelplane.plan.cel.macros import expand
from modelplane.plan.cel.syntax import (
    Call,
    CelError,
    Entry,
    Ident,
    ListExpr,
    Literal,
    MapExpr,
    Node,
    Select,
    Source,
)

_BINARY: Final = {
    "||": 1,
    "&&": 2,
    **dict.fromkeys(("<", "<=", ">=", ">", "==", "!=", "in"), 3),
    "+": 4,
    "-": 4,
    "*": 5,
    "/": 5,
    "%": 5,
}
_START: Final = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
)
MAX_DEPTH: Final = 60
"""Nested parentheses, brackets and calls. Kubernetes allows 250; a selector that a person wrote has five."""
MAX_CHAIN: Final = 250
"""Left-nested operators and selections in one operand chain."""


def parse(source: Source, *, bindings: bool = True) -> Node:
    """The tree of an expression, with ``cel.bind`` as a macro or not. Raises `CelError` at the first syntax error."""
    return _Parser(source, bindings).whole()


class _Parser:
    def __init__(self, source: Source, bindings: bool) -> None:
        self.source = source
        self.bindings = bindings
        self.tokens = tokens(source)
        self.index = 0
        self.depth = 0

    def whole(self) -> Node:
        node = self.expression()
        if self.token.kind != "end":
            raise self.unexpected("<EOF>")
        return node

    # --- tokens -------------------------------------------------------------------------------------------------

    @property
    def token(self) -> Token:
        return self.tokens[self.index]

    def next(self) -> Token:
        token = self.tokens[self.index]
        self.index += 1
        return token

    def accept(self, kind: str) -> Token | None:
        return self.next() if self.token.kind == kind else None

    def expect(self, kind: str) -> Token:
        if self.token.kind != kind:
            raise self.unexpected(f"'{kind}'" if kind != "ident" else "IDENTIFIER")
        return self.next()

    def unexpected(self, expected: str) -> CelError:
        return self.error(self.token.at, f"Syntax error: mismatched input '{self.token.text}' expecting {expected}")

    def error(self, at: int, message: str) -> CelError:
        return CelError(self.source, [self.source.issue(at, message)])

    # --- grammar ------------------------------------------------------------------------------------------------

    def expression(self) -> Node:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.error(self.token.at, f"expression recursion limit exceeded: {MAX_DEPTH}")
        node = self.binary(1)
        question = self.accept("?")
        if question is not None:
            then = self.binary(1)
            self.expect(":")
            node = Call("_?_:_", None, [node, then, self.expression()], question.at)
        self.depth -= 1
        return node

    def binary(self, floor: int) -> Node:
        node = self.unary()
        chain = 0
        while True:
            operator = self.token
            strength = _BINARY.get(operator.kind, 0)
            if strength < floor:
                return node
            chain += 1
            self.index += 1
            right = self.binary(strength + 1)
            name = "@in" if operator.kind == "in" else f"_{operator.kind}_"
            if strength <= 2 and isinstance(node, Call) and node.function == name and node.at < 0:
                node.args.append(right)
            elif strength <= 2:
                # Chains of && and || are kept flat; until the chain ends its position is marked by a negative one.
                node = Call(name, None, [node, right], -1 - operator.at)
            elif chain > MAX_CHAIN:
                raise self.error(operator.at, f"expression recursion limit exceeded: {MAX_CHAIN}")
            else:
                node = Call(name, None, [node, right], operator.at)
            if strength <= 2 and self.token.kind != operator.kind:
                assert isinstance(node, Call)
                node.at = -1 - node.at

    def unary(self) -> Node:
        operators: list[Token] = []
        while self.token.kind in ("!", "-"):
            operators.append(self.next())
            if len(operators) > MAX_CHAIN or operators[-1].kind != operators[0].kind:
                raise self.unexpected(_START)
        if operators and operators[0].kind == "-" and self.token.kind == "literal":
            value = self.token.value
            if type(value) in (int, float):
                token = self.tokens[self.index]
                self.tokens[self.index] = token._replace(value=-value, at=operators[-1].at)  # type: ignore[operator]
                operators.pop()
        node = self.postfix()
        if len(operators) % 2 == 0:
            operators = []
        if not operators:
            return node
        return Call("!_" if operators[0].kind == "!" else "-_", None, [node], operators[0].at)

    def postfix(self) -> Node:
        node = self.primary()
        chain = 0
        while True:
            chain += 1
            if chain > MAX_CHAIN:
                raise self.error(self.token.at, f"expression recursion limit exceeded: {MAX_CHAIN}")
            dot = self.accept(".")
            if dot is not None:
                optional = self.accept("?") is not None
                name = self.expect("ident")
                parenthesis = None if optional else self.accept("(")
                if parenthesis is None:
                    node = Select(node, name.text, dot.at, optional=optional)
                else:
                    node = self.expanded(Call(name.text, node, self.arguments(), parenthesis.at))
                continue
            bracket = self.accept("[")
            if bracket is None:
                return node
            function = "_[?_]" if self.accept("?") else "_[_]"
            node = Call(function, None, [node, self.expression()], bracket.at)
            self.expect("]")

    def expanded(self, call: Call) -> Node:
        if call.function == "bind" and not self.bindings:
            return call
        return expand(self.source, call)

    def arguments(self) -> list[Node]:
        found: list[Node] = []
        if self.accept(")"):
            return found
        while True:
            found.append(self.expression())
            if self.accept(")"):
                return found
            self.expect(",")

    def primary(self) -> Node:
        token = self.token
        kind = token.kind
        if kind == "literal":
            self.index += 1
            if type(token.value) is int and token.value == 2**63:
                raise self.error(token.at, "invalid int literal")
            return Literal(token.value, token.at)
        if kind == "(":
            self.index += 1
            node = self.expression()
            self.expect(")")
            return node
        if kind == "[":
            return self.list_literal()
        if kind == "{":
            return self.map_literal()
        leading = self.accept(".")
        if leading is not None and self.token.kind != "ident":
            raise self.unexpected("IDENTIFIER")
        if self.token.kind != "ident":
            raise self.unexpected(_START)
        name = self.next()
        if name.text in RESERVED:
            raise self.error(name.at, f"reserved identifier: {name.text}")
        parenthesis = self.accept("(")
        if parenthesis is None:
            return Ident(name.text, name.at, absolute=leading is not None)
        return self.expanded(Call(name.text, None, self.arguments(), parenthesis.at))

    def list_literal(self) -> Node:
        at = self.expect("[").at
        elements: list[Node] = []
        optional: set[int] = set()
        while not self.accept("]"):
            if self.accept("?"):
                optional.add(len(elements))
            elements.append(self.expression())
            if not self.accept(","):
                self.expect("]")
                break
        return ListExpr(elements, at, frozenset(optional))

    def map_literal(self) -> Node:
        at = self.expect("{").at
        entries: list[Entry] = []
        while not self.accept("}"):
            optional = self.accept("?") is not None
            key = self.expression()
            colon = self.expect(":")
            entries.append(Entry(key, self.expression(), optional, colon.at))
            if not self.accept(","):
                self.expect("}")
                break
        return MapExpr(entries, at)
