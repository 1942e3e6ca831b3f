"""Reading manifests for people: many documents in one text, with line numbers, and limits that hostile input cannot pass.

Values are built from parser events, because a node graph of a thousand manifests costs more than judging them; the graph is made
only when a line number is asked for. Plain scalars mean what they mean to kubectl, which differs from YAML 1.1 as PyYAML has it.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from functools import cached_property, lru_cache
from typing import Any, Final, TypeAlias

import msgspec
import yaml

_Loader: TypeAlias = Any
LOADER: Final[_Loader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

DEEPEST: Final = 100
"""Levels of nesting; no kind of any API server comes near."""
MOST_VALUES: Final = 500_000
"""Values in one document, those that aliases repeat included."""
MOST_BYTES: Final = 3 * 1024 * 1024
"""What an API server takes in one request."""


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """One document of a text. ``fault`` says why it cannot be read, and is empty when it can."""

    position: int
    line: int
    value: Any = None
    duplicates: tuple[tuple[str, int], ...] = ()
    """Keys that stand twice in one mapping, with the line of the second one; the last value counts."""
    fault: str = ""


def _mark(mark: Any) -> yaml.Mark:
    """The marks of parser events are there always; the stubs do not know it."""
    assert mark is not None
    found: yaml.Mark = mark
    return found


class _Limit(Exception):
    """A document passes a limit."""


class Text:
    """The bytes of one file or stream."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def documents(self) -> Iterator[Document]:
        """Every document that is not empty. A fault of syntax ends the text, since what follows has no meaning."""
        try:
            text = self._body.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = self._body.count(b"\n", 0, error.start) + 1
            yield Document(position=0, line=line, fault=f"not UTF-8: byte {error.start} cannot be decoded")
            return
        position, line = 0, 1
        events = yaml.parse(text, LOADER)
        try:
            for event in events:
                if isinstance(event, yaml.DocumentStartEvent):
                    line = _mark(event.start_mark).line + 1
                    found = _Builder(events, line, len(self._body)).document(position)
                    if found is not None:
                        yield found
                    position += 1
        except (yaml.MarkedYAMLError, yaml.reader.ReaderError) as error:
            mark = getattr(error, "problem_mark", None)
            told = getattr(error, "problem", None) or getattr(error, "reason", None) or "cannot be read"
            yield Document(position=position, line=mark.line + 1 if mark else line, fault=f"not YAML: {told}")
        except _Limit as error:
            yield Document(position=position, line=line, fault=str(error))

    def line_of(self, position: int, path: str) -> int:
        """The line of a field by its path (``spec.nodePools[0].name``), or of the nearest one above it that is there."""
        nodes = self._nodes
        return _line(nodes[position], path) if position < len(nodes) else 1

    @cached_property
    def _nodes(self) -> list[yaml.Node]:
        """Graphs of the documents before the first fault."""
        found: list[yaml.Node] = []
        with contextlib.suppress(yaml.YAMLError, UnicodeDecodeError, RecursionError):
            for node in yaml.compose_all(self._body.decode("utf-8-sig"), LOADER):
                found.append(node)
        return found


class _Builder:
    """Builds one document's value out of parser events."""

    def __init__(self, events: Iterator[yaml.Event], line: int, size: int) -> None:
        self._events = events
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._duplicates: list[tuple[str, int]] = []
        self._count = 0
        self._line = line
        self._sized = size > MOST_BYTES

    def document(self, position: int) -> Document | None:
        event = next(self._events)
        start = _mark(event.start_mark).index
        value = self._value(event, 0)
        end = next(self._events)
        if self._sized and _mark(end.end_mark).index - start > MOST_BYTES:
            raise _Limit(f"larger than {MOST_BYTES // 1024 // 1024} MiB, the most that an API server takes")
        if value is None:
            return None
        return Document(position=position, line=self._line, value=value, duplicates=tuple(self._duplicates))

    def _value(self, event: yaml.Event, depth: int) -> Any:
        if depth > DEEPEST:
            raise _Limit(f"line {_mark(event.start_mark).line + 1}: nested deeper than {DEEPEST} levels")
        before = self._count
        self._counted(1)
        if isinstance(event, yaml.ScalarEvent):
            value: Any = _scalar(event)
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor not in self._anchors:
                raise _Limit(
                    f"line {_mark(event.start_mark).line + 1}: alias *{event.anchor} inside its own anchor or before it"
                )
            value, size = self._anchors[event.anchor]
            self._counted(size)
        elif isinstance(event, yaml.SequenceStartEvent):
            value = []
            while not isinstance(item := next(self._events), yaml.SequenceEndEvent):
                value.append(self._value(item, depth + 1))
        else:
            value = self._mapping(depth)
        anchor = getattr(event, "anchor", None)
        if anchor and not isinstance(event, yaml.AliasEvent):
            self._anchors[anchor] = (value, self._count - before)
        return value

    def _mapping(self, depth: int) -> dict[str, Any]:
        made: dict[str, Any] = {}
        merged: list[Any] = []
        while not isinstance(key_event := next(self._events), yaml.MappingEndEvent):
            merge = isinstance(key_event, yaml.ScalarEvent) and key_event.value == "<<" and key_event.implicit[0]
            key = self._value(key_event, depth + 1)
            value = self._value(next(self._events), depth + 1)
            if merge:
                merged.extend(value if isinstance(value, list) else [value])
                continue
            name = key if isinstance(key, str) else json.dumps(key)
            if name in made:
                self._duplicates.append((name, _mark(key_event.start_mark).line + 1))
            made[name] = value
        for other in merged:
            if isinstance(other, dict):
                made = {**other, **made}
        return made

    def _counted(self, more: int) -> None:
        self._count += more
        if self._count > MOST_VALUES:
            raise _Limit(f"more than {MOST_VALUES:,} values, those that aliases repeat included")


_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?\Z")
_INTEGER: Final = re.compile(r"[-+]?(0b[01_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+|[0-9][0-9_]*)\Z")
_WORDS: Final[dict[str, Any]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
}


def _scalar(event: yaml.ScalarEvent) -> Any:
    if event.tag == "tag:yaml.org,2002:str" or (event.tag is None and not event.implicit[0]):
        return event.value
    return _plain(event.value)


@lru_cache(maxsize=8192)
def _plain(text: str) -> Any:
    """The value of an unquoted scalar, as kubectl reads it."""
    if text in _WORDS:
        return _WORDS[text]
    if not text[0].isdigit() and text[0] not in "+-":
        return text
    if _NUMBER.match(text) and len(text) < 64:
        return json.loads(text)
    if _INTEGER.match(text) and len(text) < 64:
        digits = text.replace("_", "").lower()
        sign = -1 if digits.startswith("-") else 1
        digits = digits.lstrip("+-")
        if len(digits) > 1 and digits[0] == "0" and digits[1].isdigit():
            digits = f"0o{digits[1:]}"
        try:
            return sign * int(digits, 0)
        except ValueError:
            return text
    return text


def _line(node: yaml.Node, path: str) -> int:
    line, rest = node.start_mark.line + 1, path
    while rest := rest.removeprefix("."):
        if isinstance(node, yaml.SequenceNode):
            match = re.match(r"\[(\d+)\]", rest)
            if not match or int(match[1]) >= len(node.value):
                break
            node, rest = node.value[int(match[1])], rest[match.end() :]
        elif isinstance(node, yaml.MappingNode):
            found = _member(node, rest)
            if found is None:
                break
            node, rest, line = found
            continue
        else:
            break
        line = node.start_mark.line + 1
    return line


def _member(node: yaml.MappingNode, rest: str) -> tuple[yaml.Node, str, int] | None:
    """The value whose key begins the path (the longest such key), what is left of the path, and the key's line."""
    best: tuple[yaml.Node, str, int] | None = None
    longest = -1
    for key, value in node.value:
        for written in (str(key.value), f"[{key.value}]"):
            left = rest[len(written) :]
            if rest.startswith(written) and (not left or left[0] in ".[") and len(written) > longest:
                best, longest = (value, left, key.start_mark.line + 1), len(written)
    return best
