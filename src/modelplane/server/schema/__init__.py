"""Schemas of served kinds: prune, default, validate. No I/O; the words are kube-apiserver's."""

from modelplane.server.schema.errors import ErrorType, FieldError, summary
from modelplane.server.schema.schema import Schema

__all__ = ["ErrorType", "FieldError", "Schema", "summary"]
