"""Reads the syntax tree that Google's CEL library serialises: just enough protobuf to compare parsers."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TypeAlias

Field: TypeAlias = int | bytes


def fields(data: bytes) -> Iterator[tuple[int, Field]]:
    """Field numbers and raw values of a protobuf message."""
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        kind = tag & 7
        if kind == 0:
            value, at = varint(data, at)
            yield tag >> 3, value
        elif kind == 1:
            yield tag >> 3, data[at : at + 8]
            at += 8
        else:
            assert kind == 2
            length, at = varint(data, at)
            yield tag >> 3, data[at : at + length]
            at += length


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def message(data: bytes) -> dict[int, list[Field]]:
    found: dict[int, list[Field]] = {}
    for number, value in fields(data):
        found.setdefault(number, []).append(value)
    return found


def _bytes(value: Field) -> bytes:
    assert isinstance(value, bytes)
    return value


def _int(value: Field) -> int:
    assert isinstance(value, int)
    return value - 2**64 if value >= 2**63 else value


def tree_of(serialized: bytes) -> str:
    """The tree as text: names, operators, positions."""
    parsed = message(_bytes(message(serialized)[2][0]))
    info = message(_bytes(parsed[3][0]))
    positions = {}
    for entry in info.get(4, []):
        pair = message(_bytes(entry))
        positions[pair[1][0]] = _int(pair.get(2, [0])[0])
    return _node(_bytes(parsed[2][0]), positions)


def _constant(data: bytes) -> str:
    ((number, value),) = fields(data)
    match number:
        case 1:
            return "null"
        case 2:
            return str(bool(value))
        case 3:
            return str(_int(value))
        case 4:
            return f"{value}u"
        case 5:
            return repr(struct.unpack("<d", _bytes(value))[0])
        case 6:
            return repr(_bytes(value).decode())
        case _:
            return repr(_bytes(value))


def _inner(shown: str, function: str) -> str:
    return shown[len(function) + 1 : -1] if shown.startswith(f"{function}(") else shown


def _node(data: bytes, positions: dict[Field, int]) -> str:
    parts = message(data)
    at = positions.get(parts.get(2, [0])[0], 0)
    if 3 in parts:
        return _constant(_bytes(parts[3][0]))
    if 4 in parts:
        return f"{_bytes(message(_bytes(parts[4][0]))[1][0]).decode().lstrip('.')}@{at}"
    if 5 in parts:
        select = message(_bytes(parts[5][0]))
        operand, name = _node(_bytes(select[1][0]), positions), _bytes(select[2][0]).decode()
        return f"has({operand}.{name})" if 3 in select else f"{operand}.{name}@{at}"
    if 6 in parts:
        call = message(_bytes(parts[6][0]))
        function = _bytes(call[2][0]).decode()
        args = [_node(_bytes(arg), positions) for arg in call.get(3, [])]
        if 1 in call:
            return f"{_node(_bytes(call[1][0]), positions)}.{function}({', '.join(args)})@{at}"
        if function in ("_&&_", "_||_"):
            # Chains are nested in a balanced way there and kept flat here.
            return f"{function}({', '.join(_inner(arg, function) for arg in args)})"
        if function == "_?._":
            return f"{args[0]}.?{args[1][1:-1]}@{at}"
        return f"{function}({', '.join(args)})@{at}"
    if 7 in parts:
        items = message(_bytes(parts[7][0]))
        return f"[{', '.join(_node(_bytes(item), positions) for item in items.get(1, []))}]"
    if 9 in parts:
        return "(a macro)"
    entries = []
    for entry in message(_bytes(parts[8][0])).get(2, []):
        pair = message(_bytes(entry))
        entries.append(f"{_node(_bytes(pair[3][0]), positions)}: {_node(_bytes(pair[4][0]), positions)}")
    return f"{{{', '.join(entries)}}}"
