"""Transcripts: our own recorded requests as data, played to a server and compared after normalising what must differ.

A file of `transcripts/` is a topic: a list of cases, each with a name, the reason why somebody depends on it, and steps.
A step's ``send`` is a method and a path; the variables are ``$ns`` (a namespace of the case's own), ``$core`` and ``$apps``
(the paths of the namespace in the two most used groups), and what earlier steps saved by ``save: {name: path.in.answer}``.
"""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from string import Template
from typing import Any, Final

import msgspec
import yaml

from tests.kubernetes.endpoint import Answer, Endpoint

FOLDER: Final = Path(__file__).with_name("transcripts")
TYPES: Final = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
    "yaml": "application/yaml",
}
HEADERS: Final = ("content-type", "warning", "www-authenticate")
TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io"
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_ADDRESS: Final = re.compile(r"\b10\.96\.\d+\.\d+\b")
_CURRENT: Final = re.compile(r"""(current: |(?:record|precondition) \((?=\d+\))|\\"resourceVersion\\":\\")\d+""")
_SELF: Final = re.compile(r"\bselfType\d+")
"""The type of ``self`` in a rule; kube-apiserver numbers it by the clock."""
_UID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    send: str
    body: Any = None
    raw: str | None = None
    base64: str | None = None
    """The body's bytes, where they are no text."""
    type: str | None = None
    headers: Mapping[str, str] = {}
    user: str | None = "admin"
    table: bool = False
    save: Mapping[str, str] = {}
    events: int | None = None
    ends: str | None = None
    """A watch is read up to the first event about the object of this name."""
    until: int | None = None
    """Ask again until the answer has this status: for what a server learns a moment later, such as new rules."""
    forget: bool = False
    """Let the server forget what was, first: every version before this request is compacted."""
    only: tuple[str, ...] = ()
    """Paths in the answer to compare, where the rest is another topic's."""


class Case(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    case: str
    reason: str
    steps: tuple[Step, ...]
    setup: str = "namespace"
    """What comes first, uncompared: a namespace, with an account for pods (``pods``), or nothing (``none``)."""


def topics() -> dict[str, list[Case]]:
    files = sorted(FOLDER.glob("*.yaml"))
    return {path.stem: msgspec.convert(yaml.safe_load(path.read_text()), list[Case]) for path in files}


@dataclass
class Player:
    """Plays one case to one server; labels of uids and versions count from one in each."""

    endpoint: Endpoint
    namespace: str
    saved: dict[str, str] = field(default_factory=dict)
    labels: dict[tuple[str, str], str] = field(default_factory=dict)
    last: Answer | None = None
    """The last answer as it came."""

    def play(self, case: Case) -> list[Any]:
        self._prepare(case.setup)
        return [self.step(step) for step in case.steps]

    def _prepare(self, setup: str) -> None:
        self.saved = {
            "ns": self.namespace,
            "core": f"/api/v1/namespaces/{self.namespace}",
            "apps": f"/apis/apps/v1/namespaces/{self.namespace}",
        }
        if setup == "none":
            return
        made: list[tuple[str, dict[str, Any]]] = [("/api/v1/namespaces", {"metadata": {"name": self.namespace}})]
        if setup == "pods":
            account = {"metadata": {"name": "default"}, "automountServiceAccountToken": False}
            made.append((f"/api/v1/namespaces/{self.namespace}/serviceaccounts", account))
        for path, obj in made:
            answer = self.endpoint.send("POST", path, json.dumps(obj).encode(), {"Content-Type": "application/json"})
            assert answer.status in (201, 409), answer

    def step(self, step: Step) -> Any:
        """Send one request and answer with the normalised answer."""
        method, _, path = self._filled(step.send).partition(" ")
        headers = {name: self._filled(value) for name, value in step.headers.items()}
        if step.table:
            headers["Accept"] = TABLE
        if step.forget:
            self.endpoint.forget()
        if step.events is not None or step.ends is not None:
            answer = self.endpoint.watch(path, step.events, headers, step.ends)
        else:
            body = self._body(step)
            if body is not None:
                headers.setdefault("Content-Type", TYPES.get(step.type or "", step.type or "application/json"))
            answer = self.endpoint.send(method, path, body, headers, step.user)
            deadline = time.monotonic() + 10
            while step.until not in (None, answer.status) and time.monotonic() < deadline:
                answer = self.endpoint.send(method, path, body, headers, step.user)
        self.last = answer
        for name, where in step.save.items():
            self.saved[name] = str(_at(answer.body, where))
        return self._normal(answer, step)

    def _body(self, step: Step) -> bytes | None:
        if step.base64 is not None:
            return base64.b64decode(step.base64)
        text = step.raw if step.raw is not None else None if step.body is None else json.dumps(step.body)
        return None if text is None else self._filled(text).encode()

    def _filled(self, text: str) -> str:
        return Template(text).safe_substitute(self.saved)

    # --- what must differ --------------------------------------------------------------------------------------------

    def _normal(self, answer: Answer, step: Step) -> dict[str, Any]:
        body = self._value(answer.body, "")
        if step.only:
            body = {where: _at(body, where) for where in step.only}
        headers = {name: answer.headers[name] for name in HEADERS if name in answer.headers}
        return {"status": answer.status, "headers": headers, "body": body}

    def _value(self, value: Any, key: str) -> Any:
        if isinstance(value, dict):
            names = dict(value)
            if "generateName" in names and str(names.get("name", "")).startswith(names["generateName"]):
                names["name"] = names["generateName"] + "GENERATED"
            kind = str(value.get("kind", ""))
            if kind.endswith("List") or kind == "Table":
                meta = {**value.get("metadata", {})}
                if "resourceVersion" in meta:
                    meta["resourceVersion"] = "VERSION"
                if "continue" in meta:
                    meta["continue"] = bool(meta["continue"])
                names["metadata"] = meta
            if kind == "APIResourceList":  # kinds of definitions come in no order
                names["resources"] = sorted(names.get("resources") or (), key=lambda resource: resource["name"])
            return {str(self._value(name, "")): self._value(inner, name) for name, inner in sorted(names.items())}
        if isinstance(value, list):
            if key == "cells":
                value = ["AGE" if isinstance(c, str) and re.fullmatch(r"\d+s|\d{1,2}m(\d+s)?", c) else c for c in value]
            if key == "managedFields":  # ordered by second, and a second may end between the two servers' turns
                value = sorted(value, key=lambda e: (e["operation"], e["manager"], e.get("subresource", "")))
            if key == "causes" and all(cause.get("reason") == "FieldManagerConflict" for cause in value):
                value = sorted(value, key=lambda cause: (cause["field"], cause["message"]))  # there in no order
            return [self._value(inner, key) for inner in value]
        if key == "continue":  # another token here and there
            return bool(value)
        if key == "resourceVersion" and isinstance(value, str) and value.isdigit():
            return self._label("version", value)
        if isinstance(value, str):
            value = _SELF.sub("selfType", value)
            value = _CURRENT.sub(lambda found: f"{found[1]}VERSION", value)
            value = _ADDRESS.sub(lambda found: self._label("address", found[0]), value)
            return _UID.sub(lambda found: self._label("uid", found[0]), _TIME.sub(_time, value))
        return value

    def _label(self, kind: str, value: str) -> str:
        known = sum(1 for one, _ in self.labels if one == kind)
        return self.labels.setdefault((kind, value), f"{kind.upper()}{known + 1}")


def _time(found: re.Match[str]) -> str:
    """Times of now are the server's; others came with the request and have to come back as they are."""
    text = found[0]
    said = datetime.fromisoformat(text.partition(".")[0].rstrip("Z") + "+00:00")
    if abs((datetime.now(UTC) - said).total_seconds()) > 4 * 3600:
        return text
    return "TIME" + ".%06d" * bool(found[1])


def _at(value: Any, where: str) -> Any:
    for part in where.split("."):
        if isinstance(value, list):
            value = value[int(part)] if int(part) < len(value) else None
        else:
            value = value.get(part) if isinstance(value, dict) else None
    return value


def differences(ours: Any, real: Any, where: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Paths where two normalised answers differ, with both values; a missing value is `...`."""
    if isinstance(ours, dict) and isinstance(real, dict):
        if ours.get("kind") != real.get("kind"):
            yield f"{where}.kind" if where else "kind", _brief(ours), _brief(real)
            return
        for name in sorted({*ours, *real}):
            yield from differences(ours.get(name, ...), real.get(name, ...), f"{where}.{name}" if where else name)
    elif isinstance(ours, list) and isinstance(real, list) and len(ours) == len(real):
        for index, (one, other) in enumerate(zip(ours, real, strict=True)):
            yield from differences(one, other, f"{where}[{index}]")
    elif ours != real or type(ours) is not type(real):
        yield where, ours, real


def _brief(body: Mapping[str, Any]) -> Any:
    return body.get("message", body.get("kind"))
