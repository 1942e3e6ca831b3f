"""The embedded server's judgement of a manifest, without a server: prune, default, validate, review.

`modelplane check` and editors get the same words as kubectl does, from the same code and the same definitions. Only kinds of ours
are judged; about others their own projects are the authority.
"""

from __future__ import annotations

import json
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import msgspec

import modelplane.api
from modelplane.api.meta import AGENT_GROUP, GROUP, INFRASTRUCTURE_GROUP, Object
from modelplane.server.crd import resource_types
from modelplane.server.resource import ResourceType
from modelplane.server.reviews import REVIEWS
from modelplane.server.schema.cel import CelEngine

_BUNDLE: Final = Path(modelplane.api.__file__).parent / "bundle" / "crds.json"
OURS: Final = (GROUP, INFRASTRUCTURE_GROUP, AGENT_GROUP)


class Severity(StrEnum):
    """What a finding means for the manifest."""

    ERROR = "error"
    """An API server refuses it."""
    WARNING = "warning"
    """An API server takes it and drops or overrides something."""
    NOTE = "note"
    """Nothing was judged."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to say about a manifest."""

    severity: Severity
    path: str
    message: str


class Judge:
    """Judges manifests. ``strict`` makes unknown fields errors, as kubectl's own validation does."""

    def __init__(self, *, strict: bool = False) -> None:
        self._strict = strict
        self._types: dict[tuple[str, str], ResourceType] = {}

    def judge(self, value: Any) -> list[Finding]:
        """Everything to say about one manifest; no error means that an API server takes it."""
        if not isinstance(value, dict):
            return [_error("", "a manifest is an object with apiVersion, kind, metadata and spec")]
        api_version, kind = value.get("apiVersion"), value.get("kind")
        for field, found in (("apiVersion", api_version), ("kind", kind)):
            if not isinstance(found, str) or not found:
                return [_error(field, f"{field} is missing or not text")]
        assert isinstance(api_version, str)
        assert isinstance(kind, str)
        group = api_version.rpartition("/")[0]
        if group not in OURS:
            return [
                Finding(severity=Severity.NOTE, path="", message=f"passed over: {api_version} is not ours to judge")
            ]
        type_ = self._type(api_version, kind)
        if type_ is None:
            served = sorted(name for version, name in self._definitions if version == api_version)
            known = f"kinds of {api_version} are {', '.join(served)}" if served else f"{group} has version v1alpha1"
            return [_error("kind" if served else "apiVersion", f'no kind "{kind}" in {api_version}; {known}')]
        return self._judged(type_, value)

    def _judged(self, type_: ResourceType, value: Object) -> list[Finding]:
        schema = type_.schema
        if not isinstance(value.get("metadata", {}), dict):
            return [_error("metadata", "metadata is not an object")]
        undecodable = schema.decoding_error(value)
        if undecodable:
            return [_error("metadata", undecodable)]
        pruned, unknown = schema.prune(value)
        severity = Severity.ERROR if self._strict else Severity.WARNING
        findings = [Finding(severity=severity, path=path, message=f'unknown field "{path}"') for path in unknown]
        if not type_.namespaced and (value.get("metadata") or {}).get("namespace"):
            findings.append(
                Finding(
                    severity=Severity.WARNING,
                    path="metadata.namespace",
                    message=f"{type_.gvk.kind} is cluster-scoped; the namespace is ignored",
                )
            )
        made = schema.default(pruned)
        errors = list(schema.validate(made))
        review = REVIEWS.get(type_.gvk)
        if review is not None:
            errors += review(made, None)
        findings += [_error(error.path, str(error)) for error in errors]
        return findings

    def _type(self, api_version: str, kind: str) -> ResourceType | None:
        key = (api_version, kind)
        if key not in self._types and key in self._definitions:
            for type_ in resource_types(self._definitions[key], CelEngine()):
                self._types[type_.gvk.api_version, type_.gvk.kind] = type_
        return self._types.get(key)

    @cached_property
    def _definitions(self) -> dict[tuple[str, str], Object]:
        text = _BUNDLE.read_text("utf-8")
        found: dict[tuple[str, str], Object] = {}
        for definition in json.loads(text):
            spec = definition["spec"]
            if spec["group"] in OURS:
                for version in spec["versions"]:
                    found[f"{spec['group']}/{version['name']}", spec["names"]["kind"]] = definition
        return found


def _error(path: str, message: str) -> Finding:
    return Finding(severity=Severity.ERROR, path=path, message=message)
