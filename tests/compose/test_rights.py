"""What composers put on inference clusters, and read there, is what rbac-cluster.yaml allows."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

import modelplane.compose
import modelplane.operator
from modelplane.api.meta import GVK
from modelplane.compose import kinds
from modelplane.compose.workloads.picker import _rules
from modelplane.kube.resources import KNOWN, plural

COMPOSE = Path(modelplane.compose.__file__).parent
WRITTEN = ("workloads", "stack")
"""Folders whose composers make objects of inference clusters alone."""
ALL = {"get", "list", "watch", "create", "patch", "delete"}


def granted() -> dict[tuple[str, str], set[str]]:
    documents = yaml.safe_load_all((Path(str(modelplane.operator.__file__)).parent / "rbac-cluster.yaml").read_text())
    return {
        (group, resource): set(rule["verbs"])
        for document in documents
        for rule in document.get("rules", ())
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


def resource(kind: GVK) -> tuple[str, str]:
    return kind.group, KNOWN[kind].plural if kind in KNOWN else plural(kind.kind)


def named(text: str) -> set[GVK]:
    """Kinds that a module names."""
    found = (getattr(kinds, word, None) for word in set(re.findall(r"\b[A-Z][A-Z_]+\b", text)))
    return {kind for kind in found if isinstance(kind, GVK)}


def test_every_kind_that_is_made_on_a_cluster_may_be_made_there_and_no_other() -> None:
    sources = [path.read_text() for folder in WRITTEN for path in (COMPOSE / folder).glob("*.py")]
    made = {resource(kind) for text in sources for kind in named(text) if kind.group not in ("modelplane.ai",)}
    assert made == {place for place, verbs in granted().items() if verbs == ALL}


def test_every_kind_that_is_read_on_a_cluster_may_be_read_there() -> None:
    text = (COMPOSE / "inference_cluster.py").read_text()
    read = {kinds.NODE, kinds.RESOURCE_SLICE, kinds.DEVICE_CLASS, kinds.STORAGE_CLASS}
    assert {
        kind for kind in named(text) if f"kind={name_of(kind)}, cluster=" in text or kind == kinds.STORAGE_CLASS
    } == read
    rights = granted()
    assert all({"list", "watch"} <= rights[resource(kind)] for kind in read)


def name_of(kind: GVK) -> str:
    return next(name for name, value in vars(kinds).items() if value == kind)


def test_what_the_picker_is_given_is_there_to_be_given() -> None:
    rights = granted()
    for rule in _rules():
        for group in rule["apiGroups"]:
            for name in rule["resources"]:
                assert set(rule["verbs"]) <= rights[group, name]
