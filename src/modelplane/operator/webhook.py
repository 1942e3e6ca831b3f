"""The validating webhook: what a schema cannot refuse is refused when it is written, with the words of the embedded server.

It looks at nothing but the object, so a standby answers too. The chart lets API servers go on without it (failurePolicy Ignore):
the operator says the same in conditions. TLS is the standard library's; a renewed certificate is taken over without a restart.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import ssl
from pathlib import Path
from typing import Final

import orjson

from modelplane.api.meta import GVK, Object
from modelplane.errors import PermanentError
from modelplane.operator.listening import listen
from modelplane.plan.cel.admission import Complaint, complaints

log = logging.getLogger(__name__)

PATH: Final = "/validate"
LIMIT: Final = 8 << 20
"""Bytes of a review: an object and the one before it, of 3 MiB at most each."""
WITHIN: Final = 10.0
"""Seconds for a request."""
REREAD: Final = 30.0
"""Seconds between looks at the certificate's files."""


def review(asked: Object) -> Object:
    """The answer to an AdmissionReview (admission.k8s.io/v1). KeyError or TypeError for what is none."""
    request = asked["request"]
    answer: Object = {"uid": request["uid"], "allowed": True}
    found = complaints(request["object"], request.get("oldObject")) if request.get("object") else []
    if found:
        said = [f"{one.path}: {_words(one)}" for one in found]
        kind = GVK.of(request["object"])
        name = request.get("name") or request["object"].get("metadata", {}).get("name", "")
        text = said[0] if len(said) == 1 else f"[{', '.join(said)}]"
        answer["allowed"] = False
        answer["status"] = {
            "code": 422,
            "reason": "Invalid",
            "message": f'{kind.kind}.{kind.group} "{name}" is invalid: {text}',
            "details": {"name": name, "group": kind.group, "kind": kind.kind, "causes": [_cause(one) for one in found]},
        }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": answer}


def _words(said: Complaint) -> str:
    return f"Invalid value: {json.dumps(said.value, ensure_ascii=False)}: {said.message}"


def _cause(said: Complaint) -> Object:
    """kubectl shows the causes of a refusal, each with its field."""
    return {"reason": "FieldValueInvalid", "message": _words(said), "field": said.path}


class Webhook:
    """Serves `PATH` over TLS with ``tls.crt`` and ``tls.key`` of a folder, as a mounted Secret has them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._loaded: bytes = b""
        self._server: asyncio.Server | None = None
        self._rereading: asyncio.Task[None] | None = None
        self.port = 0

    async def start(self, port: int, host: str) -> None:
        """Raises PermanentError where the certificate cannot be used, or the port cannot be had."""
        try:
            self.reload()
        except (OSError, ssl.SSLError) as error:
            raise PermanentError(
                f"the webhook's certificate in {self._folder} cannot be used ({error}); it needs tls.crt and tls.key, PEM"
            ) from error
        self._server, self.port = await listen(self._serve, host, port, "--webhook-port", self._context)
        self._rereading = asyncio.create_task(self._reread(), name="rereading the webhook's certificate")

    async def close(self) -> None:
        if self._rereading is not None:
            self._rereading.cancel()
        if self._server is not None:
            self._server.close()

    def reload(self) -> None:
        """Take over the certificate where it changed; connections from now on get it."""
        certificate, key = self._folder / "tls.crt", self._folder / "tls.key"
        content = certificate.read_bytes() + key.read_bytes()
        if content != self._loaded:
            self._context.load_cert_chain(certificate, key)
            self._loaded = content

    async def _reread(self) -> None:
        while True:
            await asyncio.sleep(REREAD)
            try:
                self.reload()
            except (OSError, ssl.SSLError) as error:
                log.warning("the webhook keeps its certificate; the new one cannot be used: %s", error)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            async with asyncio.timeout(WITHIN):
                status, body = await self._answer(reader)
                writer.write(
                    f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
                    "Connection: close\r\n\r\n".encode()
                    + body
                )
                await writer.drain()
        writer.close()

    async def _answer(self, reader: asyncio.StreamReader) -> tuple[str, bytes]:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, *_ = [*head[0].split(" "), "", ""]
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
        if method != "POST" or path.partition("?")[0] != PATH:
            return "404 Not Found", b'{"error": "POST an AdmissionReview to /validate"}'
        length = headers.get("content-length", "")
        if not length.isdecimal():
            return "411 Length Required", b'{"error": "a Content-Length is needed"}'
        if int(length) > LIMIT:
            return "413 Content Too Large", b'{"error": "the review is too large"}'
        try:
            return "200 OK", orjson.dumps(review(orjson.loads(await reader.readexactly(int(length)))))
        except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError, ValueError):
            return "400 Bad Request", b'{"error": "the body is no AdmissionReview of admission.k8s.io/v1"}'
