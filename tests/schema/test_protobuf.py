"""Protobuf bodies, as kubectl 1.37 sent them; what each means is what the same kubectl prints with a client's dry run."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from modelplane.api.meta import GVK
from modelplane.errors import BadBody
from modelplane.server import protobuf
from modelplane.server.builtin import builtin_schema
from modelplane.server.builtin.kinds import KINDS

CAPTURED = json.loads((Path(__file__).parent / "captured" / "kubectl-1.37.json").read_text())
PRINTED = {name: entry for name, entry in CAPTURED.items() if "json" in entry}


def body(name: str) -> bytes:
    return base64.b64decode(CAPTURED[name]["body"])


def trimmed(value: Any) -> Any:
    """Without what is empty either way: Go prints empty structs and null times, which mean nothing."""
    if isinstance(value, dict):
        kept = {key: trimmed(item) for key, item in value.items()}
        return {key: item for key, item in kept.items() if item not in ({}, None)}
    return [trimmed(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", PRINTED)
def test_a_body_means_what_kubectl_prints(name: str) -> None:
    decoded = protobuf.decode(body(name))
    decoded["metadata"].pop("namespace", None)
    printed = trimmed(PRINTED[name]["json"])
    printed["metadata"].pop("namespace", None)
    assert trimmed(decoded) == printed


@pytest.mark.parametrize("name", PRINTED)
def test_a_decoded_body_fits_the_schema_of_its_kind(name: str) -> None:
    decoded = protobuf.decode(body(name))
    schema = builtin_schema(GVK.of(decoded))
    assert schema.decoding_error(decoded) == ""
    assert schema.prune(decoded)[1] == []


def test_zero_is_kept_where_it_was_said_and_dropped_where_it_was_not() -> None:
    spec = protobuf.decode(body("deployment"))["spec"]
    assert spec["replicas"] == 0, "a pointer to zero is a zero"
    assert "minReadySeconds" not in spec
    assert "paused" not in spec


def test_reviews_and_token_requests_are_read() -> None:
    review = protobuf.decode(body("can-i"))
    assert review["kind"] == "SelfSubjectAccessReview"
    assert review["spec"]["resourceAttributes"] == {
        "namespace": "ml-team", "verb": "create", "group": "apps", "resource": "deployments", "name": "scale",
    }  # fmt: skip
    assert protobuf.decode(body("role"))["rules"] == [
        {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["x"]},
        {"verbs": ["get", "list"], "apiGroups": ["apps"], "resources": ["deployments"], "resourceNames": ["x"]},
    ]
    assert protobuf.decode(body("can-i-list"))["spec"] == {"namespace": "ml-team"}
    assert protobuf.decode(body("whoami"))["kind"] == "SelfSubjectReview"
    token = protobuf.decode(body("token"))
    assert token["spec"] == {"audiences": ["x"], "expirationSeconds": 3600}


def field(number: int, data: bytes) -> bytes:
    return bytes([number << 3 | 2, len(data)]) + data


def enveloped(api_version: str, kind: str, raw: bytes) -> bytes:
    meta = field(1, api_version.encode()) + field(2, kind.encode())
    return protobuf.MAGIC + field(1, meta) + field(2, raw)


def test_times_maps_and_raw_values_are_read() -> None:
    lease = field(2, field(4, bytes([8, 1, 16]) + b"\xc0\x84\x3d"))
    assert protobuf.decode(enveloped("coordination.k8s.io/v1", "Lease", lease)) == {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "spec": {"renewTime": "1970-01-01T00:00:01.001000Z"},
    }
    revision = field(2, field(1, b'{"a":[1]}')) + bytes([3 << 3, 7])
    decoded = protobuf.decode(enveloped("apps/v1", "ControllerRevision", revision))
    assert (decoded["data"], decoded["revision"]) == ({"a": [1]}, 7)
    options = bytes([1 << 3, 0]) + field(4, b"Foreground")
    assert protobuf.decode(enveloped("v1", "DeleteOptions", options)) == {
        "apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0, "propagationPolicy": "Foreground",
    }  # fmt: skip


def test_fields_that_are_not_known_are_skipped() -> None:
    raw = field(1, field(1, b"n")) + bytes([15 << 3, 1]) + field(14, b"?")
    assert protobuf.decode(enveloped("v1", "Namespace", raw))["metadata"] == {"name": "n"}


@pytest.mark.parametrize(
    "data",
    [b"{}", protobuf.MAGIC + b"\x0a\xff", body("namespace")[:-3], enveloped("v1", "Unheard", b""), protobuf.MAGIC + b"\x80" * 12,
     enveloped("v1", "Namespace", b"\x0a\x02\x0a\xff"), enveloped("v1", "Namespace", b"\x0b")],
    ids=["json", "cut", "cut at the end", "unknown kind", "endless number", "cut inside", "group"],
)  # fmt: skip
def test_a_damaged_body_is_a_bad_body(data: bytes) -> None:
    with pytest.raises(BadBody):
        protobuf.decode(data)


def test_every_stored_kind_but_definitions_has_a_table() -> None:
    for kind in KINDS:
        if kind.group != "apiextensions.k8s.io":
            protobuf.decode(enveloped(kind.gvk.api_version, kind.kind, field(1, field(1, b"x"))))
