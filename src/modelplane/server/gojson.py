"""The words of kube-apiserver for a body that is no JSON: people search for them, and clients match on them."""

from __future__ import annotations

import json
from typing import Final

_SHOWN: Final = 30
_LITERALS: Final = ("true", "false", "null")
_PLACES: Final = {
    "Expecting value": "looking for beginning of value",
    "Expecting property name": "looking for beginning of object key string",
    "Illegal trailing comma": "looking for beginning of object key string",
    "Expecting ':'": "after object key",
    "Extra data": "after top-level value",
    "Invalid control character": "in string literal",
    "Invalid \\": "in string escape code",
}


def complaint(body: bytes) -> str:
    """What is wrong with a text that is no JSON; empty for one that is."""
    text = body.decode(errors="replace")
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return _complaint(text, error)
    except RecursionError:
        return "exceeded max depth"
    return ""


def unrecognized(kind: str, body: bytes, why: str) -> str:
    """The 400 of a body that should hold an object of a kind."""
    return f"the object provided is unrecognized (must be of type {kind}): {why} ({shown(body)})"


def not_parsed(body: bytes) -> str:
    """Why no kind was found in a body that does not hold an object."""
    why = complaint(body)
    if not why:
        what = {"[": "array", '"': "string", "t": "bool", "f": "bool"}.get(body.lstrip()[:1].decode(), "number")
        fields = 'APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\""'
        why = f"json: cannot unmarshal {what} into Go value of type struct {{ {fields} }}"
    return f"couldn't get version/kind; json parse error: {why}"


def shown(body: bytes) -> str:
    """The start of a body: as text where it may be an object, else in hexadecimal digits."""
    if not body:
        return "<empty>"
    start = body[:_SHOWN]
    text = start.decode(errors="replace") if body[:1] == b"{" else start.hex()
    return text if len(body) <= _SHOWN else f"{text} ..."


def _complaint(text: str, error: json.JSONDecodeError) -> str:
    at, place = error.pos, next((words for told, words in _PLACES.items() if error.msg.startswith(told)), "")
    if error.msg.startswith("Expecting ',"):
        place = "after array element" if _inside_list(text[:at]) else "after object key:value pair"
    if place == "looking for beginning of value":
        word = next((word for word in _LITERALS if at < len(text) and word[0] == text[at]), "")
        same = next((n for n, (one, other) in enumerate(zip(word, text[at:], strict=False)) if one != other), len(word))
        if word and at + same < len(text):
            return f"invalid character {_quoted(text[at + same])} in literal {word} (expecting {_quoted(word[same])})"
        at += same if word else 0
    if at >= len(text.rstrip()) or error.msg.startswith("Unterminated"):
        return "unexpected end of JSON input"
    return f"invalid character {_quoted(text[at])} {place}"


def _inside_list(text: str) -> bool:
    """Whether a prefix of JSON ends inside a list, rather than inside an object."""
    open_: list[str] = []
    quoted = escaped = False
    for character in text:
        if quoted:
            quoted = escaped or character != '"'
            escaped = character == "\\" and not escaped
        elif character == '"':
            quoted = True
        elif character in "[{":
            open_.append(character)
        elif character in "]}" and open_:
            open_.pop()
    return open_[-1:] == ["["]


def _quoted(character: str) -> str:
    return {"'": r"'\''", '"': "'\"'", "\n": r"'\n'", "\t": r"'\t'"}.get(character, f"'{character}'")
