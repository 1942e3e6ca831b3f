"""Reading request bodies: JSON and YAML with duplicate keys told, and Go's words for a value of the wrong type."""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

import msgspec

from modelplane.api.meta import Object
from modelplane.errors import BadBody
from modelplane.server.schema.formats import QUANTITY_WORDS, is_quantity
from modelplane.server.schema.node import Node

if TYPE_CHECKING:
    import yaml


class _Repeated(dict[str, object]):
    """An object whose text named some keys more than once."""

    names: tuple[str, ...] = ()


def decode_json(body: bytes) -> tuple[object, list[str]]:
    """The value, and the paths of fields that the text gives twice (the last one counts). Raises BadBody."""
    plain = _canonical(body)
    if plain is not None:
        return plain, []
    found = False

    def pairs(items: list[tuple[str, object]]) -> dict[str, object]:
        nonlocal found
        made = dict(items)
        if len(made) == len(items):
            return made
        found = True
        marked = _Repeated(made)
        names = [name for name, _ in items]
        marked.names = tuple(dict.fromkeys(name for name in names if names.count(name) > 1))
        return marked

    try:
        value = json.loads(body, object_pairs_hook=pairs)
    except (ValueError, RecursionError) as error:
        raise BadBody(f"error parsing the body as JSON: {error}") from error
    duplicates: list[str] = []
    return (_plain(value, "", duplicates) if found else value), duplicates


def _canonical(body: bytes) -> object:
    """The value of a text that is written again as it was, as most programs write JSON: then nothing is there twice."""
    text = body.strip()
    try:
        value = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return None
    return value if msgspec.json.encode(value) == text else None


def _plain(value: object, path: str, duplicates: list[str]) -> object:
    if isinstance(value, list):
        return [_plain(item, f"{path}[{position}]", duplicates) for position, item in enumerate(value)]
    if not isinstance(value, dict):
        return value
    if isinstance(value, _Repeated):
        duplicates.extend(f"{path}.{name}" if path else name for name in value.names)
    return {name: _plain(item, f"{path}.{name}" if path else name, duplicates) for name, item in value.items()}


def decode_yaml(body: bytes) -> tuple[object, list[str]]:
    """As ``decode_json``, for one YAML document; of a repeated key its sentence is given instead of a path."""
    import yaml

    loader = yaml.CSafeLoader(body) if hasattr(yaml, "CSafeLoader") else yaml.SafeLoader(body)
    duplicates: list[str] = []
    try:
        node = loader.get_single_node()
        return (None if node is None else _yaml(loader, node, duplicates)), duplicates
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise BadBody(f"error converting YAML to JSON: {_yaml_complaint(error)}") from error
    finally:
        loader.dispose()


def _yaml_complaint(error: Exception) -> str:
    """The parser's complaint in one line, as Go's parser, which is a sibling of it, writes it."""
    problem, mark = getattr(error, "problem", None), getattr(error, "problem_mark", None)
    if not problem or mark is None:
        return str(error)
    context = getattr(error, "context_mark", None)
    line = context.line if context is not None and context.line else max(mark.line - 1, 0)
    return f"yaml: line {line + 1}: {problem}"


def _yaml(loader: yaml.SafeLoader | yaml.CSafeLoader, node: yaml.Node, duplicates: list[str]) -> object:
    import yaml

    if isinstance(node, yaml.SequenceNode):
        return [_yaml(loader, item, duplicates) for item in node.value]
    if isinstance(node, yaml.MappingNode):
        loader.flatten_mapping(node)
        made: Object = {}
        for key_node, value_node in node.value:
            key = _scalar(loader, key_node)
            text = key if isinstance(key, str) else json.dumps(key)
            if text in made:
                line = key_node.start_mark.line + 1
                duplicates.append(f'yaml: unmarshal errors:\n  line {line}: key "{text}" already set in map')
            made[text] = _yaml(loader, value_node, duplicates)
        return made
    return _scalar(loader, node)


def _scalar(loader: yaml.SafeLoader | yaml.CSafeLoader, node: yaml.Node) -> Hashable:
    if node.tag in ("tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:binary"):
        return str(node.value)
    value: Hashable = loader.construct_object(node)
    return value


def strict_error(unknown: Sequence[str], duplicates: Sequence[str]) -> str:
    """The message of a 400 under strict field validation."""
    return f"strict decoding error: {', '.join(field_warnings(unknown, duplicates))}"


def field_warnings(unknown: Sequence[str], duplicates: Sequence[str]) -> list[str]:
    """The same findings as the warnings of a request that is not strict."""
    told = [text if text.startswith("yaml:") else f'duplicate field "{text}"' for text in duplicates]
    return [*told, *(f'unknown field "{path}"' for path in unknown)]


_GO = {"integer": "int32", "string": "string", "boolean": "bool", "number": "float64"}


def type_mismatch(node: Node, value: object, path: str = "", owner: str = "") -> str:
    """Go's complaint about the first value of a built-in kind that cannot be decoded, or an empty string."""
    if value is None or node.type == "":
        return ""
    if node.type == "quantity":
        return "" if is_quantity(value) else QUANTITY_WORDS
    if isinstance(value, dict) and node.type == "object":
        below = node.name or owner
        for name, item in value.items():
            child = node.field(name)
            place = f"{path}.{name}" if path else name
            place = place if name in node.properties else path  # Go names the map, not its key
            told = type_mismatch(child, item, place, below) if child else ""
            if told:
                return told
        return ""
    if isinstance(value, list) and node.type == "array":
        items = node.items
        complaints = (type_mismatch(items, item, path, owner) for item in value) if items else iter(())
        return next((words for words in complaints if words), "")
    if _decodes(node.type, value):
        return _bytes(str(value)) if node.constraints.get("format") == "byte" else ""
    found = {dict: "object", list: "array", str: "string", bool: "bool"}.get(type(value), "number")
    if found == "number" and node.type == "integer":
        found = f"number {value}"
    return f"json: cannot unmarshal {found} into Go struct field {owner}.{path} of type {_go_type(node)}"


def _bytes(text: str) -> str:
    """What Go says of text that is no base64, with the place where it stops to be."""
    text = text.replace("\n", "").replace("\r", "")
    plain = re.match("[A-Za-z0-9+/]*", text)
    assert plain
    digits, padding = plain.end(), len(text) - plain.end()
    if padding <= 2 and not text[digits:].strip("=") and len(text) % 4 == 0:
        return ""
    return f"illegal base64 data at input byte {digits if padding and text[digits] != '=' else len(text) // 4 * 4}"


def _decodes(type_: str, value: object) -> bool:
    if type_ == "int-or-string":
        return isinstance(value, str | int) and not isinstance(value, bool)
    if type_ in ("integer", "number"):
        return isinstance(value, int if type_ == "integer" else int | float) and not isinstance(value, bool)
    return isinstance(value, {"string": str, "boolean": bool}.get(type_, ()))


def _go_type(node: Node) -> str:
    if node.type == "array":
        return f"[]{_go_type(node.items)}" if node.items else "[]interface {}"
    if node.type == "object":
        return f"v1.{node.name}" if node.name else f"map[string]{_go_type(node.additional) if node.additional else ''}"
    if node.type == "int-or-string":
        return "intstr.IntOrString"
    return str(
        node.constraints.get("format") if node.type == "integer" and node.constraints else _GO.get(node.type, "")
    )
