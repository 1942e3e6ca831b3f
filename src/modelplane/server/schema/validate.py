"""Validation of a value against a schema, in kube-apiserver's words.

Values that an update leaves as they were are not judged again (ratcheting), so that a tightened schema does not lock
the objects that it finds. Rules in CEL run by ``rules.py`` when nothing structural stands in their way.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from modelplane.api.meta import Object
from modelplane.server.schema.errors import ErrorType, FieldError, shown, supported
from modelplane.server.schema.formats import QUANTITY_WORDS, conforms, is_quantity, pattern
from modelplane.server.schema.node import Compiler, Node

_KINDS = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}


def validate(
    node: Node, value: object, old: object = None, path: str = "", beside: Sequence[FieldError] = ()
) -> list[FieldError]:
    """Everything wrong with a value; ``old`` is the stored value at the same place, None when there is none. What was found
    ``beside`` the schema comes before keys that are there twice."""
    errors: list[FieldError] = []
    _value(node, value, old, path, errors)
    errors += beside
    _lists(node, value, old, path, errors)
    return list({str(error): error for error in errors}.values()) if len(errors) > 1 else errors


def kind_of(value: object) -> str:
    """The JSON type's name."""
    return "null" if value is None else _KINDS.get(type(value), "object")


def join(path: str, name: str) -> str:
    """A field path; names that are no identifiers are quoted as map keys (``labels[a/b]``) by the caller."""
    return f"{path}.{name}" if path else name


def correlate(node: Node, items: Sequence[object], old: object) -> list[object]:
    """For each item of a list the item of the old list that it stands for, or None: only list maps correlate."""
    if node.list_type != "map" or not isinstance(old, list):
        return [None] * len(items)
    known = {key_of(node, item): item for item in old}
    return [known.get(key_of(node, item)) for item in items]


def key_of(node: Node, item: object) -> str:
    """The identity of an item of a list map, as text."""
    if not isinstance(item, dict):
        return json.dumps(item, sort_keys=True, default=str)
    return json.dumps([[item[key]] if key in item else [] for key in node.map_keys], sort_keys=True, default=str)


def _value(node: Node, value: object, old: object, path: str, errors: list[FieldError]) -> None:
    if old is not None and old == value:
        return
    if value is None and node.nullable:
        if "enum" in node.constraints and None not in node.constraints["enum"]:
            errors.append(supported(path, value, node.constraints["enum"]))
        return
    if not _typed(node.type, value):
        errors.append(_type_error(node, value, path))
        if node.type == "integer" and isinstance(value, float):
            words = f"Checked value must be of type integer (default format) in {path}"
            errors.append(FieldError(path="", type=ErrorType.INVALID, bad_value="", message=words))
    if node.constraints:
        constraints(node, value, path, errors)
    if isinstance(value, dict):
        _object(node, value, old, path, errors)
    elif isinstance(value, list):
        _list(node, value, old, path, errors)


def _typed(type_: str, value: object) -> bool:
    if type_ == "":
        return True
    if type_ == "int-or-string":
        return isinstance(value, str | int) and not isinstance(value, bool)
    if type_ == "quantity":
        return is_quantity(value)
    if type_ == "number":
        return isinstance(value, int | float) and not isinstance(value, bool)
    if type_ == "integer":
        whole = isinstance(value, int) and not isinstance(value, bool)
        return whole or (isinstance(value, float) and value.is_integer())
    return kind_of(value) == type_


def _type_error(node: Node, value: object, path: str) -> FieldError:
    if node.type == "quantity" and not isinstance(value, dict | list):
        return FieldError(path=path, type=ErrorType.INVALID, bad_value=value, message=QUANTITY_WORDS)
    found = kind_of(value)
    wanted = "integer,string" if node.type == "int-or-string" else node.type
    message = f'{path} in body must be of type {wanted}: "{found}"'
    return FieldError(path=path, type=ErrorType.TYPE_INVALID, bad_value=found, message=message)


def _object(node: Node, value: Object, old: object, path: str, errors: list[FieldError]) -> None:
    before = old if isinstance(old, dict) else {}
    errors.extend(
        FieldError(path=join(path, name), type=ErrorType.REQUIRED) for name in node.required if name not in value
    )
    if node.embedded:
        for name in ("apiVersion", "kind"):
            if not value.get(name):
                errors.append(FieldError(path=join(path, name), type=ErrorType.REQUIRED, message="must not be empty"))
    for name, item in value.items():
        child = node.properties.get(name)
        if child is not None:
            _value(child, item, before.get(name), join(path, name), errors)
        elif node.additional is not None:
            _value(node.additional, item, before.get(name), join(path, name), errors)


def _list(node: Node, value: list[object], old: object, path: str, errors: list[FieldError]) -> None:
    if node.items is not None:
        for position, (item, before) in enumerate(zip(value, correlate(node, value, old), strict=True)):
            _value(node.items, item, before, f"{path}[{position}]", errors)


def _lists(node: Node, value: object, old: object, path: str, errors: list[FieldError]) -> None:
    """Items that a set or a list map has twice, anywhere below. Keys of maps are in brackets in these paths."""
    if not node.has_lists_below or (old is not None and old == value):
        return
    if isinstance(value, dict):
        before = old if isinstance(old, dict) else {}
        for name, item in value.items():
            child = node.properties.get(name)
            if child is not None:
                _lists(child, item, before.get(name), join(path, name), errors)
            elif node.additional is not None:
                _lists(node.additional, item, before.get(name), f"{path}[{name}]", errors)
    elif isinstance(value, list) and node.items is not None:
        if node.list_type in ("set", "map"):
            _unique(node, value, path, errors)
        for position, (item, former) in enumerate(zip(value, correlate(node, value, old), strict=True)):
            _lists(node.items, item, former, f"{path}[{position}]", errors)


def _unique(node: Node, value: list[object], path: str, errors: list[FieldError]) -> None:
    keyed = node.list_type == "map"
    for position, item in enumerate(value if keyed else ()):
        if item is not None and not isinstance(item, dict):
            message = "must be an object for an array of list-type map"
            where = f"{path}[{position}]"
            errors.append(FieldError(path=where, type=ErrorType.INVALID, bad_value=item, message=message))
            return
    seen: set[str] = set()
    told_of: set[str] = set()
    for position, given in enumerate(value):
        item = {} if keyed and given is None else given
        identity = key_of(node, item) if keyed else json.dumps(item, sort_keys=True, default=str)
        if identity in seen and identity not in told_of:
            told_of.add(identity)
            told = item
            if keyed and isinstance(item, dict):
                told = {key: item[key] for key in sorted(node.map_keys) if key in item}
            errors.append(FieldError(path=f"{path}[{position}]", type=ErrorType.DUPLICATE, bad_value=told))
        seen.add(identity)


def constraints(node: Node, value: object, path: str, errors: list[FieldError]) -> None:
    """Add what a value's own limits say against it."""
    rules = node.constraints
    if "enum" in rules and not any(_equal(value, choice) for choice in rules["enum"]):
        errors.append(supported(path, value, rules["enum"]))
    if "format" in rules and not conforms(rules["format"], value):
        if isinstance(value, str):
            message = f"{path} in body must be of type {rules['format']}: {shown(value)}"
            errors.append(FieldError(path=path, type=ErrorType.TYPE_INVALID, bad_value=value, message=message))
        else:
            words = f"Checked value must be of type integer with format {rules['format']} in {path}"
            errors.append(FieldError(path="", type=ErrorType.INVALID, bad_value="", message=words))
    shows = len(value) if isinstance(value, list | dict) else value
    for words in _broken(rules, value):
        errors.append(FieldError(path=path, type=ErrorType.INVALID, bad_value=shows, message=f"{path} in body {words}"))
    _sizes(rules, value, path, errors)
    if value is not None and rules.keys() & {"allOf", "anyOf", "oneOf", "not"}:
        _composed(node, value, path, errors)


def _equal(value: object, choice: object) -> bool:
    if isinstance(value, float) and isinstance(choice, int) and not isinstance(choice, bool):
        return int(value) == choice  # as Go converts them
    return value == choice and isinstance(value, bool) == isinstance(choice, bool)


def _broken(rules: Object, value: object) -> list[str]:
    """The scalar limits that a value is outside of, as the end of a sentence."""
    found: list[str] = []
    if isinstance(value, str):
        if len(value) > rules.get("maxLength", len(value)):
            return found
        if len(value) < rules.get("minLength", 0):
            found.append(f"should be at least {rules['minLength']} chars long")
        elif "pattern" in rules and not pattern(rules["pattern"]).search(value):
            found.append(f"should match '{rules['pattern']}'")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        low, high, step = rules.get("minimum"), rules.get("maximum"), rules.get("multipleOf")
        if low is not None and (value <= low if rules.get("exclusiveMinimum") else value < low):
            found.append(f"should be greater than {'' if rules.get('exclusiveMinimum') else 'or equal to '}{low}")
        if high is not None and (value >= high if rules.get("exclusiveMaximum") else value > high):
            found.append(f"should be less than {'' if rules.get('exclusiveMaximum') else 'or equal to '}{high}")
        if step and (value / step) % 1:
            found.append(f"should be a multiple of {step}")
    elif isinstance(value, list):
        if len(value) < rules.get("minItems", 0):
            found.append(f"should have at least {rules['minItems']} items")
        if rules.get("uniqueItems") and len({json.dumps(item, sort_keys=True) for item in value}) < len(value):
            found.append("shouldn't contain duplicates")
    elif isinstance(value, dict) and len(value) < rules.get("minProperties", 0):
        found.append(f"should have at least {rules['minProperties']} properties")
    return found


def _sizes(rules: Object, value: object, path: str, errors: list[FieldError]) -> None:
    if isinstance(value, str) and len(value) > rules.get("maxLength", len(value)):
        message = f"may not be more than {rules['maxLength']} bytes"
        errors.append(FieldError(path=path, type=ErrorType.TOO_LONG, bad_value=value, message=message))
    for kind, key in ((list, "maxItems"), (dict, "maxProperties")):
        if isinstance(value, kind) and key in rules and len(value) > rules[key]:
            message = f"must have at most {rules[key]} item{'' if rules[key] == 1 else 's'}"
            errors.append(FieldError(path=path, type=ErrorType.TOO_MANY, bad_value=len(value), message=message))


def _composed(node: Node, value: object, path: str, errors: list[FieldError]) -> None:
    """allOf, anyOf, oneOf, not: the branches only constrain, so they are small and compiled on the spot."""
    rules = node.constraints

    def failures(branch: Object) -> list[FieldError]:
        return validate(Compiler().compile(branch), value, None, path)

    def complain(words: str) -> None:
        errors.append(FieldError(path="", type=ErrorType.INVALID, bad_value="", message=f'"{path}" {words}'))

    every = [found for branch in rules.get("allOf") or () if (found := failures(branch))]
    if every:
        none = ". None validated" if len(every) == len(rules["allOf"]) else ""
        complain(f"must validate all the schemas (allOf){none}")
        errors.extend(error for found in every for error in found)
    for key, words in (
        ("anyOf", "must validate at least one schema (anyOf)"),
        ("oneOf", "must validate one and only one schema (oneOf). Found none valid"),
    ):
        branches = [failures(branch) for branch in rules.get(key) or ()]
        if branches and all(branches):
            complain(words)
            errors += branches[0]
        valid = sum(not found for found in branches)
        if key == "oneOf" and valid > 1:
            complain(f"must validate one and only one schema (oneOf). Found {valid} valid alternatives")
    if "not" in rules and not failures(rules["not"]):
        complain("must not validate the schema (not)")
