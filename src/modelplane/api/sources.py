"""The words about types and fields: docstrings, read from the source text.

A string that stands below a field is dropped by the compiler, so descriptions cost nothing at run time; they exist in the
source and in what is generated from it. Only the generator imports this.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from functools import cache
from types import ModuleType


@cache
def _words(module: ModuleType) -> dict[tuple[str, str | None], str]:
    """Docstrings by class and field name of one module."""
    found: dict[tuple[str, str | None], str] = {}
    for node in ast.parse(inspect.getsource(module)).body:
        if not isinstance(node, ast.ClassDef):
            continue
        found[node.name, None] = ast.get_docstring(node) or ""
        for statement, after in zip(node.body, node.body[1:], strict=False):
            name = _target(statement)
            if name and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                found[node.name, name] = str(after.value.value)
    return found


def _target(statement: ast.stmt) -> str | None:
    """The name that an annotated or plain assignment gives a value to."""
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        return statement.target.id
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Name):
        return statement.targets[0].id
    return None


def describe(type_: type, field: str | None) -> str:
    """The docstring of a class (field None) or of a field or enumeration member, on one line; of the base class that has it."""
    for base in type_.__mro__:
        module = sys.modules.get(base.__module__)
        if module is None or not base.__module__.startswith("modelplane."):
            continue
        words = _words(module).get((base.__name__, field))
        if words:
            return re.sub(r"\s+", " ", words).strip()
    return ""
