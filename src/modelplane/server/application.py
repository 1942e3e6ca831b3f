"""From a request as it was read to its answer: who asks, what the router says, and the words of whatever goes wrong."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from modelplane.errors import BadBody, ModelplaneError, Refusal
from modelplane.server import refusals
from modelplane.server.call import Answer, Backend, Stream
from modelplane.server.impersonation import impersonated
from modelplane.server.request import MAX_BODY, Media, Query, Request, locate
from modelplane.server.router import Router, refused

LOG: Final = logging.getLogger(__name__)


class Application:
    """Answers requests, one call each."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._router = Router(backend)

    async def answer(
        self, method: str, url: str, listed: Sequence[tuple[str, str]], body: bytes
    ) -> tuple[Answer | Stream, Sequence[str]]:
        """The answer to one request, and the warnings that go with it. ``listed`` are the headers, names in lower case."""
        headers = dict(listed)
        path, _, text = (url if url.startswith("/") else _origin(url)).partition("?")
        query = Query(text)
        request = Request(method, locate(method, path, query), query, headers, body)
        try:
            request.user = self._backend.authenticator.user(headers.get("authorization", ""))
            if "impersonate-" in "\n".join(headers):
                request.user = impersonated(request.user, listed, self._backend.authorizer)
            if len(body) > MAX_BODY:
                raise refusals.too_large()
            found = await self._router.answer(request)
        except Refusal as refusal:
            found = refused(Media(), refusal)
        except BadBody as error:
            found = refused(Media(), refusals.bad_request(str(error)))
        except ModelplaneError as error:
            found = refused(Media(), refusals.internal(str(error)))
        except Exception as error:
            LOG.exception("%s %s failed", method, path)
            found = refused(Media(), refusals.internal(f"{type(error).__name__}: {error}"))
        return found, request.warnings


def _origin(url: str) -> str:
    """Path and query of a URL in absolute form, as proxies send it."""
    parts = urlsplit(url)
    return f"{parts.path}?{parts.query}"
