"""Label selectors in their one-line form, read as Kubernetes reads them: what it refuses is refused in its words."""

from __future__ import annotations

import re
from typing import Final

from modelplane.server import refusals
from modelplane.server.schema.names import label_key, label_value

_TOKEN: Final = re.compile(r"[ \t\r\n]*(?:(==|!=|=|!|,|\(|\)|<|>)|([^ \t\r\n=!,()<>]+))")
_SPECIAL: Final = frozenset({"==", "!=", "=", "!", ",", "(", ")", "<", ">", ""})
_OPERATORS: Final = {"=": "in", "==": "in", "!=": "notin", "in": "in", "notin": "notin", ">": "gt", "<": "lt"}

Term = tuple[str, str, frozenset[str]]
"""Key, operator (``in``, ``notin``, ``exists``, ``!``, ``gt`` or ``lt``) and values."""


class _Wrong(Exception):
    """What is wrong with one requirement."""


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = [found.group(1) or found.group(2) for found in _TOKEN.finditer(text.rstrip())]
        self._at = 0

    def peek(self) -> str:
        """The next token, empty at the end."""
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def take(self) -> str:
        token = self.peek()
        self._at += 1
        return token

    def requirement(self) -> Term:
        key, absent = self.take(), False
        if key == "!":
            key, absent = self.take(), True
        if key in _SPECIAL:
            raise _Wrong(f"found '{key}', expected: identifier")
        if wrong := label_key(key):
            raise _Wrong(f'<nil>: Invalid value: "{key}": {"; ".join(wrong)}')
        if absent or self.peek() in ("", ","):
            return key, "!" if absent else "exists", frozenset()
        told = self.take()
        operator = _OPERATORS.get(told)
        if operator is None:
            raise _Wrong(f"found '{told}', expected: in, notin, =, ==, !=, gt, lt")
        values = self.set() if told in ("in", "notin") else {self.exact()}
        return key, operator, _checked(key, operator, values)

    def exact(self) -> str:
        if self.peek() in ("", ","):
            return ""
        value = self.take()
        if value in _SPECIAL:
            raise _Wrong(f"found '{value}', expected: identifier")
        return value

    def set(self) -> set[str]:
        if (token := self.take()) != "(":
            raise _Wrong(f"found '{token}' expected: '('")
        if self.peek() == ")":
            self.take()
            return {""}
        if (token := self.peek()) in _SPECIAL and token != ",":
            raise _Wrong(f"found '{token}', expected: ',', ')' or identifier")
        values: set[str] = set()
        while True:
            token = self.take()
            if token == ",":
                if not values or self.peek() in (",", ")"):
                    values.add("")
                if self.peek() == ")":
                    break
            elif token in _SPECIAL:
                raise _Wrong(f"found '{token}', expected: ',', or identifier")
            else:
                values.add(token)
                if (after := self.peek()) == ")":
                    break
                if after != ",":
                    raise _Wrong(f"found '{after}', expected: ',' or ')'")
        self.take()
        return values


def _checked(key: str, operator: str, values: set[str]) -> frozenset[str]:
    wrong = []
    for position, value in enumerate(sorted(values)):
        if operator in ("gt", "lt") and not re.fullmatch(r"[+-]?\d+", value):
            why = "for 'Gt', 'Lt' operators, the value must be an integer"
            wrong.append(f'values[{position}]: Invalid value: "{value}": {why}')
    for position, value in enumerate(sorted(values)):
        if words := label_value(value):
            wrong.append(f'values[{position}][{key}]: Invalid value: "{value}": {"; ".join(words)}')
    if wrong:
        raise _Wrong(wrong[0] if len(wrong) == 1 else f"[{', '.join(wrong)}]")
    return frozenset(values)


def parse(text: str) -> list[Term]:
    """The terms of a selector, none for an empty one. Raises a 400."""
    parser = _Parser(text)
    terms: list[Term] = []
    while token := parser.peek():
        if token in _SPECIAL and token != "!":
            raise refusals.bad_request(f"found '{token}', expected: !, identifier, or 'end of string'")
        try:
            terms.append(parser.requirement())
        except _Wrong as why:
            raise refusals.bad_request(f"unable to parse requirement: {why}") from None
        if (after := parser.take()) not in ("", ","):
            raise refusals.bad_request(f"found '{after}', expected: ',' or 'end of string'")
        if after == "," and (follows := parser.peek()) in _SPECIAL and follows != "!":
            raise refusals.bad_request(f"found '{follows}', expected: identifier after ','")
    return terms
