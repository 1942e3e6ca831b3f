"""JSON patch (RFC 6902), with the error texts that kube-apiserver's users know."""

from __future__ import annotations

import copy

from modelplane.api.meta import Object
from modelplane.errors import BadBody, PatchRefused
from modelplane.server.equality import same

MAX_OPERATIONS = 10_000
_NEEDS_VALUE = ("add", "replace", "test")
_NEEDS_FROM = ("move", "copy")


def json_patch(obj: Object, operations: object) -> Object:
    """The object after all operations, or an error and no change at all."""
    if not isinstance(operations, list):
        what = {dict: "object", str: "string", bool: "bool"}.get(type(operations), "number")
        raise BadBody(
            f"error decoding patch: json: cannot unmarshal {what} into Go value of type []handlers.jsonPatchOp"
        )
    if len(operations) > MAX_OPERATIONS:
        raise BadBody(
            f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}: "
            "send several patches"
        )
    document: object = copy.deepcopy(obj)
    for operation in operations:
        document = _apply(document, operation)
    if not isinstance(document, dict):
        raise PatchRefused("the patch replaces the whole object by something that is not an object")
    return document


def _apply(document: object, operation: object) -> object:
    if not isinstance(operation, dict) or not isinstance(operation.get("path"), str):
        raise BadBody(f"an operation of a JSON patch is an object with op and path, got {operation!r}")
    op, path = operation.get("op"), operation["path"]
    if op in _NEEDS_VALUE and "value" not in operation:
        raise BadBody(f"operation {op} at {path} has no value")
    if op in _NEEDS_FROM and not isinstance(operation.get("from"), str):
        raise BadBody(f"operation {op} at {path} has no from")
    keys = _pointer(path)
    if op == "add":
        return _add(document, keys, copy.deepcopy(operation["value"]), path, "add")
    if op == "remove":
        return _remove(document, keys, path, "remove")
    if op == "replace":
        value = copy.deepcopy(operation["value"])
        if not keys:
            return value
        parent = _parent(document, keys, path, "replace")
        if not isinstance(parent, dict):  # a missing member is added, as the API server has it
            _lookup(parent, keys[-1], path, "replace")
        _set(parent, keys[-1], value)
        return document
    if op == "test":
        if not same(_value_or_none(document, keys), operation["value"]):
            raise PatchRefused(f"testing value {path} failed: test failed")
        return document
    if op in _NEEDS_FROM:
        source = operation["from"]
        found = _pointer(source)
        held = _parent(document, found, source, str(op)) if found else document
        if (
            op == "copy" and found and isinstance(held, dict)
        ):  # of a missing member it copies null, as the API server has it
            value = copy.deepcopy(held.get(found[-1]))
        else:
            value = copy.deepcopy(_get(document, found, source, str(op)))
        if op == "move":
            if path == source:
                return document
            if path.startswith(source + "/"):
                raise PatchRefused(f"move operation does not apply: {source} cannot move into itself at {path}")
            document = _remove(document, _pointer(source), source, "move")
        return _add(document, keys, value, path, str(op))
    raise PatchRefused(f"unexpected kind of operation: {op!r} at {path}; one of add, remove, replace, move, copy, test")


def _pointer(path: str) -> list[str]:
    if not path:
        return []
    if not path.startswith("/"):
        raise BadBody(f"{path!r} is no JSON pointer: it starts with a slash or is empty")
    return [part.replace("~1", "/").replace("~0", "~") for part in path[1:].split("/")]


def _parent(document: object, keys: list[str], path: str, op: str) -> object:
    for key in keys[:-1]:
        document = _lookup(document, key, path, op, "path")
    return document


def _lookup(container: object, key: str, path: str, op: str, what: str = "key") -> object:
    if isinstance(container, dict) and key in container:
        return container[key]
    if isinstance(container, list):
        return container[_index(container, key, path, op, len(container) - 1)]
    raise PatchRefused(f'{op} operation does not apply: doc is missing {what}: "{path}": missing value')


def _index(items: list[object], key: str, path: str, op: str, last: int) -> int:
    digits = key.removeprefix("-")
    if not digits.isascii() or not digits.isdigit() or (digits != "0" and digits.startswith("0")):
        raise PatchRefused(
            f'{op} operation does not apply: doc is missing path: "{path}": {key!r} is no index of a list'
        )
    if int(key) > last or int(key) < -(last + 1):
        raise PatchRefused(
            f"{op} operation does not apply: Unable to access invalid index: {key}: invalid index referenced"
        )
    return int(key) % (last + 1)


def _get(document: object, keys: list[str], path: str, op: str) -> object:
    return _lookup(_parent(document, keys, path, op), keys[-1], path, op) if keys else document


def _value_or_none(document: object, keys: list[str]) -> object:
    """For ``test``: a missing member compares like null, as the API server has it."""
    for position, key in enumerate(keys):
        last = position == len(keys) - 1
        if isinstance(document, dict):
            if key not in document and not last:
                raise PatchRefused(f"error in test for path: '/{'/'.join(keys)}': missing value")
            document = document.get(key)
        else:
            document = _lookup(document, key, "/" + "/".join(keys), "test", "path")
    return document


def _add(document: object, keys: list[str], value: object, path: str, op: str) -> object:
    if not keys:
        return value
    parent = _parent(document, keys, path, op)
    if isinstance(parent, list):
        at = len(parent) if keys[-1] == "-" else _index(parent, keys[-1], path, op, len(parent))
        parent.insert(at, value)
    elif isinstance(parent, dict):
        parent[keys[-1]] = value
    else:
        raise PatchRefused(f'{op} operation does not apply: doc is missing path: "{path}": missing value')
    return document


def _remove(document: object, keys: list[str], path: str, op: str) -> object:
    if not keys:
        raise PatchRefused(f"{op} operation does not apply: the whole object cannot be removed by a patch; delete it")
    parent = _parent(document, keys, path, op)
    _lookup(parent, keys[-1], path, op)
    if isinstance(parent, dict):
        del parent[keys[-1]]
    elif isinstance(parent, list):
        del parent[_index(parent, keys[-1], path, op, len(parent) - 1)]
    return document


def _set(parent: object, key: str, value: object) -> None:
    if isinstance(parent, dict):
        parent[key] = value
    elif isinstance(parent, list):
        parent[_index(parent, key, key, "replace", len(parent) - 1)] = value
