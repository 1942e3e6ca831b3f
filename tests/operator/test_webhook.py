"""The webhook refuses what the embedded server refuses, and answers nonsense without falling over."""

from __future__ import annotations

import copy
import datetime
import json
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import aiohttp
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from modelplane.api.meta import Object
from modelplane.errors import PermanentError
from modelplane.operator.webhook import Webhook

from .conftest import example


def certificate(folder: Path, name: str) -> None:
    """A certificate that signs itself, as tls.crt and tls.key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder(
            subject, subject, key.public_key(), x509.random_serial_number(), now, now.replace(year=2100)
        )
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    (folder / "tls.crt").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / "tls.key").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )


@pytest.fixture
async def webhook(tmp_path: Path) -> AsyncIterator[Webhook]:
    certificate(tmp_path, "first")
    serving = Webhook(tmp_path)
    await serving.start(0, "127.0.0.1")
    yield serving
    await serving.close()


@pytest.fixture
async def post(webhook: Webhook, tmp_path: Path) -> AsyncIterator[Callable[..., object]]:
    async with aiohttp.ClientSession() as session:

        async def ask(body: bytes, path: str = "/validate") -> tuple[int, Object]:
            trusted = ssl.create_default_context(cafile=str(tmp_path / "tls.crt"))
            url = f"https://localhost:{webhook.port}{path}"
            async with session.post(url, data=body, ssl=trusted) as answer:
                return answer.status, await answer.json()

        yield ask


def asked(obj: Object | None, old: Object | None = None) -> bytes:
    request = {"uid": "u-1", "operation": "UPDATE" if old else "CREATE", "object": obj, "oldObject": old}
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


def broken() -> Object:
    """A class with an attribute that no device could publish."""
    [obj] = copy.deepcopy(example("20-inference-class"))[:1]
    obj["spec"]["devices"][0].setdefault("attributes", {})["9lives"] = {"string": "x"}  # type: ignore[index]
    return obj


async def test_what_is_right_is_allowed_and_what_is_wrong_is_refused_with_field_and_reason(post) -> None:  # type: ignore[no-untyped-def]
    status, said = await post(asked(example("20-inference-class")[0]))
    assert (status, said["response"]) == (200, {"uid": "u-1", "allowed": True})
    status, said = await post(asked(broken()))
    assert (status, said["response"]["allowed"], said["response"]["status"]["code"]) == (200, False, 422)
    assert (
        'spec.devices[0].attributes[9lives]: Invalid value: "9lives": the name' in said["response"]["status"]["message"]
    )
    details = said["response"]["status"]["details"]
    assert (details["kind"], details["group"], details["name"]) == ("InferenceClass", "modelplane.ai", "synthetic-gpu")
    [cause] = details["causes"]
    assert (cause["field"], cause["reason"]) == ("spec.devices[0].attributes[9lives]", "FieldValueInvalid")


async def test_what_was_stored_before_the_rule_can_be_edited_elsewhere_and_deleted(post) -> None:  # type: ignore[no-untyped-def]
    edited = broken()
    edited["metadata"]["labels"] = {"a": "b"}
    assert (await post(asked(edited, broken())))[1]["response"]["allowed"] is True
    assert (await post(asked(None, broken())))[1]["response"]["allowed"] is True


@pytest.mark.parametrize(
    ("body", "path", "status"),
    [
        pytest.param(b"nonsense", "/validate", 400, id="no JSON"),
        pytest.param(b"[]", "/validate", 400, id="JSON that is no object"),
        pytest.param(b'{"request": {}}', "/validate", 400, id="a review without uid"),
        pytest.param(b"{}", "/", 404, id="another path"),
        pytest.param(b" " * (8 << 20) + b"{}", "/validate", 413, id="more than an API server sends"),
    ],
)
async def test_nonsense_gets_an_error_and_the_next_review_an_answer(post, body: bytes, path: str, status: int) -> None:  # type: ignore[no-untyped-def]
    try:
        assert (await post(body, path))[0] == status
    except aiohttp.ClientError:
        assert status == 413, "the connection may end before all of it was sent"
    assert (await post(asked(example("20-inference-class")[0])))[0] == 200


async def test_a_renewed_certificate_is_taken_over_without_a_restart(webhook: Webhook, post, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    certificate(tmp_path, "second")
    with pytest.raises(aiohttp.ClientConnectorCertificateError):
        await post(asked(None))
    webhook.reload()
    assert (await post(asked(None)))[0] == 200


async def test_a_folder_without_a_certificate_is_said_with_what_it_needs(tmp_path: Path) -> None:
    with pytest.raises(PermanentError, match=r"tls\.crt and tls\.key"):
        await Webhook(tmp_path).start(0, "127.0.0.1")
