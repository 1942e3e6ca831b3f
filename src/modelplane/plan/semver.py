"""Semantic versions as Kubernetes' DRA reads them: strict for device attributes, lenient on request.

Order and equality ignore build metadata. Numbers are 64-bit, as in the Go library that real allocators use.
"""

from __future__ import annotations

from typing import Final, TypeAlias

_DIGITS: Final = frozenset("0123456789")
_ALPHANUMERIC: Final = frozenset("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-")
_UINT64_MAX: Final = 2**64 - 1

_Identifier: TypeAlias = tuple[int, int, str]
"""Numeric identifiers before alphanumeric ones: (0, number, "") or (1, 0, text)."""


class SemverError(ValueError):
    """The text is not a semantic version."""


class Semver:
    """A version; equal and ordered by precedence, so build metadata does not count."""

    __slots__ = ("key", "major", "minor", "patch")

    def __init__(self, major: int, minor: int, patch: int, prerelease: tuple[_Identifier, ...] = ()) -> None:
        self.major = major
        self.minor = minor
        self.patch = patch
        # No prerelease outranks any prerelease.
        self.key = (major, minor, patch, not prerelease, prerelease)

    def compare(self, other: Semver) -> int:
        """-1, 0 or 1, as the version is less, equal or greater."""
        return (self.key > other.key) - (self.key < other.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Semver) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return f"Semver{self.key}"


def is_semver(text: str, lenient: bool = False) -> bool:
    """Whether `parse_semver` would accept the text."""
    try:
        parse_semver(text, lenient)
    except SemverError:
        return False
    return True


def parse_semver(text: str, lenient: bool = False) -> Semver:
    """Read a version. ``lenient`` drops one ``v``, leading zeros, and fills missing parts. Raises `SemverError`."""
    if lenient:
        text = _normalised(text)
    if not text:
        raise SemverError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise SemverError("No Major.Minor.Patch elements found")
    patch, plus, build = parts[2].partition("+")
    patch, dash, prerelease = patch.partition("-")
    if plus:
        for piece in build.split("."):
            _require_identifier(piece, "Build meta data is empty", "build meta data")
    return Semver(
        _number(parts[0], "Major"),
        _number(parts[1], "Minor"),
        _number(patch, "Patch"),
        tuple(_prerelease(piece) for piece in prerelease.split(".")) if dash else (),
    )


def _normalised(text: str) -> str:
    parts = text.removeprefix("v").split(".", 2)
    for index, part in enumerate(parts):
        if len(part) > 1:
            stripped = part.lstrip("0")
            parts[index] = stripped if stripped and stripped[0] in _DIGITS else "0" + stripped
    if len(parts) < 3:
        if "+" in parts[-1] or "-" in parts[-1]:
            raise SemverError("Short version cannot contain PreRelease/Build meta data")
        parts += ["0"] * (3 - len(parts))
    return ".".join(parts)


def _number(text: str, what: str) -> int:
    if not text or not _DIGITS.issuperset(text):
        raise SemverError(f'Invalid character(s) found in {what.lower()} number "{text}"')
    if len(text) > 1 and text[0] == "0":
        raise SemverError(f'{what} number must not contain leading zeroes "{text}"')
    if len(text) > 20 or int(text) > _UINT64_MAX:
        raise SemverError(f'{what} number is out of range "{text}"')
    return int(text)


def _require_identifier(text: str, empty: str, what: str) -> None:
    if not text:
        raise SemverError(empty)
    if not _ALPHANUMERIC.issuperset(text):
        raise SemverError(f'Invalid character(s) found in {what} "{text}"')


def _prerelease(text: str) -> _Identifier:
    _require_identifier(text, "Prerelease is empty", "prerelease")
    return (0, _number(text, "Prerelease"), "") if _DIGITS.issuperset(text) else (1, 0, text)
