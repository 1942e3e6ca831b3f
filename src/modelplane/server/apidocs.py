"""OpenAPI over HTTP: v3 as an index with hashes and one document per group and version, v2 as one document of all kinds.

Compressed where clients take it, and 304 for what a client has already.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Mapping
from email.utils import formatdate
from typing import TYPE_CHECKING, Final

from modelplane.server.call import Answer
from modelplane.server.registry import Registry
from modelplane.server.request import JSON, Query
from modelplane.server.tags import holds, quoted, unchanged

if TYPE_CHECKING:
    from modelplane.server.openapi import Documents, Swagger

V2: Final = "/openapi/v2"
V3: Final = "/openapi/v3"
PROTOBUF: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_V2_FORMS: Final = {JSON: JSON, PROTOBUF: PROTOBUF, PROTOBUF.replace("v2.v1", "v2@v1"): PROTOBUF}
_V3_FORMS: Final = {JSON: JSON}
_VARY: Final = {"Vary": "Accept-Encoding, Accept"}
_YEAR: Final = 365 * 24 * 3600


def _form(accept: str, known: Mapping[str, str]) -> str | None:
    """The content type of the first known form in a client's order of preference; None when it takes none of them."""
    clauses = [clause.split(";") for clause in (accept or "*/*").lower().split(",")]
    for name, *_ in sorted(clauses, key=lambda clause: -_quality(clause[1:])):
        kind = name.strip()
        if kind in known or kind in ("*/*", "application/*"):
            return known.get(kind, JSON)
    return None


def _quality(parameters: list[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.strip().partition("=")
        if name == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0


class ApiDocs:
    """The documents of one registry, made when they are asked for and thrown away when the kinds change."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._generation = 0
        self._by_version: Documents | None = None
        self._swagger: Swagger | None = None

    async def answer(self, path: str, query: Query, headers: Mapping[str, str]) -> Answer | None:
        """A document, or None when the path is not one."""
        if path == V2:
            return await self._v2(headers)
        if path == V3:
            return Answer(200, self._documents().index)
        match path.removeprefix(V3 + "/").split("/"):
            case ["api", version]:
                return self._v3("", version, query.get("hash"), headers)
            case ["apis", group, version]:
                return self._v3(group, version, query.get("hash"), headers)
        return None

    def _v3(self, group: str, version: str, wanted: str, headers: Mapping[str, str]) -> Answer | None:
        documents = self._documents()
        document = documents.document(group, version)
        if document is None:
            return None
        if _form(headers.get("accept", ""), _V3_FORMS) is None:
            return Answer(406, b"", "", _VARY)
        digest = documents.hash(group, version)
        if wanted and wanted != digest:
            there = {"Location": documents.address(group, version), "ETag": quoted(digest)}
            return Answer(301, b"", headers={**there, **_VARY})
        forever = {"Cache-Control": "public, immutable", "Expires": formatdate(time.time() + _YEAR, usegmt=True)}
        told = {**_VARY, **(forever if wanted else {})}
        return (
            unchanged(digest, told) if holds(headers, digest) else _packed(document.gzip, JSON, digest, headers, told)
        )

    async def _v2(self, headers: Mapping[str, str]) -> Answer:
        form = _form(headers.get("accept", ""), _V2_FORMS)
        if form is None:
            return Answer(406, b"", "", _VARY)
        swagger = self._whole()  # of the kinds of now, whatever is defined while it is made
        if holds(headers, swagger.etag):
            return unchanged(swagger.etag, _VARY)
        packed = await swagger.compressed("json" if form == JSON else "protobuf")
        return _packed(packed, form, swagger.etag, headers, _VARY)

    def _documents(self) -> Documents:
        from modelplane.server.openapi import Documents

        self._renew()
        if self._by_version is None:
            self._by_version = Documents(self._registry.types())
        return self._by_version

    def _whole(self) -> Swagger:
        from modelplane.server.openapi import Swagger

        self._renew()
        if self._swagger is None:
            self._swagger = Swagger(self._registry.types())
        return self._swagger

    def _renew(self) -> None:
        if self._generation != self._registry.generation:
            self._by_version = self._swagger = None
            self._generation = self._registry.generation


def _packed(gzip: bytes, form: str, digest: str, asked: Mapping[str, str], headers: Mapping[str, str]) -> Answer:
    told = {**headers, "ETag": quoted(digest)}
    if "gzip" in asked.get("accept-encoding", ""):
        return Answer(200, gzip, form, {**told, "Content-Encoding": "gzip"})
    return Answer(200, zlib.decompress(gzip, wbits=31), form, told)
