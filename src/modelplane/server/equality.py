"""Equality of JSON values: Python calls true and 1 equal, JSON does not."""

from __future__ import annotations


def same(left: object, right: object) -> bool:
    """Whether two JSON values are equal; 1 and 1.0 are, true and 1 are not."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return left == right
