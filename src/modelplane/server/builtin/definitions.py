"""OpenAPI definitions of built-in kinds, read one by one out of a compressed file that ships with the package.

The file is made by ``scripts/generate_builtin.py``. Opening it costs its table of contents; a definition is parsed
when something asks for it and is not kept, because compiled schemas are.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from functools import cache
from importlib import resources

import msgspec

from modelplane.api.meta import Object

_FILE = "definitions.zip"
_decode = msgspec.json.Decoder(Object).decode


@cache
def _archive() -> zipfile.ZipFile:
    return zipfile.ZipFile(resources.files(__package__).joinpath(_FILE).open("rb"))


@cache
def names() -> frozenset[str]:
    """The full names of all definitions (``io.k8s.api.core.v1.Pod``)."""
    return frozenset(_archive().namelist())


@cache
def fingerprint() -> str:
    """Changes when any definition does."""
    total = 0
    for entry in _archive().infolist():
        total = (total * 31 + entry.CRC) & 0xFFFF_FFFF_FFFF_FFFF
    return f"{total:016x}"


def definition(name: str) -> Object:
    """One definition; its ``$ref`` values are plain definition names. Raises KeyError for an unknown name."""
    return _decode(_archive().read(name))


def closure(roots: Iterable[str]) -> dict[str, Object]:
    """These definitions and all that they reach, by name: what an OpenAPI document has to carry."""
    found: dict[str, Object] = {}
    waiting = list(roots)
    while waiting:
        current = waiting.pop()
        if current not in found:
            found[current] = definition(current)
            waiting.extend(references(found[current]))
    return found


def references(value: object) -> set[str]:
    """The names of the definitions that a value refers to."""
    if isinstance(value, list):
        return {ref for item in value for ref in references(item)}
    if not isinstance(value, dict):
        return set()
    found = {ref for key, item in value.items() if key != "$ref" for ref in references(item)}
    ref = value.get("$ref")
    return found | {ref} if isinstance(ref, str) else found
