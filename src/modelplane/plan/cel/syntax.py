"""The syntax tree of CEL, with macros already expanded into `Fold`, `Bind` and `OptionalMap`.

Positions are offsets into the text in code points. A call stands at its parenthesis, a selection at its dot, an operator at itself:
where Kubernetes reports errors.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from modelplane.plan.cel.registry import Overload
    from modelplane.plan.cel.types import Type


@dataclass(slots=True)
class Literal:
    """A constant: None, bool, int, `UInt`, float, str or bytes."""

    value: object
    at: int
    type: Type | None = None


@dataclass(slots=True)
class Ident:
    """A name; ``absolute`` is one with a dot before it, which means the same but names no macro."""

    name: str
    at: int
    type: Type | None = None
    absolute: bool = False


@dataclass(slots=True)
class Select:
    """``operand.field``; ``test`` makes it ``has(operand.field)``, ``optional`` makes it ``operand.?field``."""

    operand: Node
    field: str
    at: int
    test: bool = False
    optional: bool = False
    type: Type | None = None


@dataclass(slots=True)
class Call:
    """A function or operator; ``target`` is the receiver of the member style. ``overloads`` are those that the checker left
    possible, and ``exact`` says that the argument types are known to fit the only one."""

    function: str
    target: Node | None
    args: list[Node]
    at: int
    overloads: tuple[Overload, ...] | None = None
    exact: bool = False
    type: Type | None = None


@dataclass(slots=True)
class ListExpr:
    elements: list[Node]
    at: int
    optional: frozenset[int] = frozenset()
    type: Type | None = None


@dataclass(slots=True)
class Entry:
    key: Node
    value: Node
    optional: bool
    at: int


@dataclass(slots=True)
class MapExpr:
    entries: list[Entry]
    at: int
    type: Type | None = None


@dataclass(slots=True)
class Fold:
    """A comprehension. ``kind`` is all, exists, existsOne, map, filter, transformList, transformMap or transformMapEntry.

    ``key`` is set in the two-variable forms; ``filter`` in the forms that have one.
    """

    kind: str
    range: Node
    key: str | None
    item: str
    filter: Node | None
    body: Node
    at: int
    type: Type | None = None


@dataclass(slots=True)
class Bind:
    """``cel.bind(name, value, body)``."""

    name: str
    value: Node
    body: Node
    at: int
    type: Type | None = None


@dataclass(slots=True)
class OptionalMap:
    """``value.optMap(name, body)``, or ``optFlatMap`` with ``flat``."""

    name: str
    value: Node
    body: Node
    flat: bool
    at: int
    type: Type | None = None


Node: TypeAlias = Literal | Ident | Select | Call | ListExpr | MapExpr | Fold | Bind | OptionalMap


@dataclass(frozen=True, slots=True)
class Issue:
    """What is wrong and where: line and column count from 1; both are 0 when the whole expression is meant."""

    message: str
    line: int
    column: int


@dataclass(slots=True)
class Source:
    """An expression's text, which turns offsets into lines and columns."""

    text: str
    _starts: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self._starts = [0] + [index + 1 for index, char in enumerate(self.text) if char == "\n"]

    def issue(self, at: int, message: str) -> Issue:
        line = 0
        while line + 1 < len(self._starts) and self._starts[line + 1] <= at:
            line += 1
        return Issue(message, line + 1, at - self._starts[line] + 1)

    def render(self, issue: Issue) -> str:
        """The issue as Kubernetes prints it: message, line of source, caret."""
        if not issue.line:
            return issue.message
        start = self._starts[issue.line - 1]
        line = self.text[start:].split("\n", 1)[0].replace("\t", " ")
        dots = "".join("." if char.isascii() else "\uff0e" for char in line[: issue.column - 1])
        mark = "^" if line[issue.column - 1 : issue.column].isascii() else "\uff3e"
        return f"ERROR: <input>:{issue.line}:{issue.column}: {issue.message}\n | {line}\n | {dots}{mark}"


class CelError(ValueError):
    """The text does not compile: one issue or more, with their positions."""

    def __init__(self, source: Source, issues: list[Issue], prefix: str = "compilation failed: ") -> None:
        self.issues = tuple(issues)
        super().__init__(prefix + "\n".join(source.render(issue) for issue in issues))


class Fault(Exception):
    """Evaluation has no value: CEL's error. ``&&``, ``||``, ``all`` and ``exists`` may absorb it."""
