"""OpenAPI v3 over HTTP: an index with hashes, and one document per group and version, compressed where clients take it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from modelplane.server.call import Answer
from modelplane.server.registry import Registry
from modelplane.server.request import Query

if TYPE_CHECKING:
    from modelplane.server.openapi import Documents

PREFIX = "/openapi/v3"


class ApiDocs:
    """The documents of one registry, made when they are asked for and thrown away when the kinds change."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._generation = 0
        self._documents: Documents | None = None

    def answer(self, path: str, query: Query, accept_encoding: str) -> Answer | None:
        """A document, or None when the path is not one. OpenAPI v2 is not served; kubectl does without."""
        if path == PREFIX:
            return Answer(200, self._current().index)
        parts = path.removeprefix(PREFIX + "/").split("/")
        match parts:
            case ["api", version]:
                group = ""
            case ["apis", group, version]:
                pass
            case _:
                return None
        if not path.startswith(PREFIX + "/"):
            return None
        documents = self._current()
        document = documents.document(group, version)
        if document is None:
            return None
        headers = {"ETag": f'"{documents.hash(group, version)}"', "Vary": "Accept-Encoding"}
        if query.get("hash"):
            headers["Cache-Control"] = "public, immutable"
        if "gzip" in accept_encoding:
            return Answer(200, document.gzip, headers={**headers, "Content-Encoding": "gzip"})
        return Answer(200, document.body, headers=headers)

    def _current(self) -> Documents:
        if self._documents is None or self._generation != self._registry.generation:
            from modelplane.server.openapi import Documents

            self._documents = Documents(self._registry.types())
            self._generation = self._registry.generation
        return self._documents
