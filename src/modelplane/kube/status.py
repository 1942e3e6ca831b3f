"""From an HTTP answer of a Kubernetes API to our exceptions: one place that knows the words of a Status."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from modelplane.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    ServerFailure,
    Throttled,
    Unauthorized,
)

_BY_CODE: dict[int, type[ApiError]] = {
    400: Invalid,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    405: Invalid,
    406: Invalid,
    409: Conflict,
    410: Gone,
    413: Invalid,
    415: Invalid,
    422: Invalid,
    429: Throttled,
}


def error_of(code: int, body: bytes, *, where: str, retry_after: str | None = None) -> ApiError:
    """The exception for a failed answer. ``where`` is the request as ``VERB /path`` and ends the message, since a
    server's own words seldom name it. A body that is no Status (a proxy's page) is quoted in short."""
    status = _status(body)
    message = str(status.get("message") or body[:200].decode("utf-8", "replace").strip() or f"HTTP {code}")
    reason = str(status.get("reason") or "")
    details = status.get("details") or {}
    causes = tuple(
        (str(cause.get("field") or ""), str(cause.get("message") or "")) for cause in details.get("causes") or ()
    )
    kind = _BY_CODE.get(code, ServerFailure if code >= 500 else ApiError)
    if code == 409 and reason == "AlreadyExists":
        kind = AlreadyExists
    after = details.get("retryAfterSeconds") or (retry_after if retry_after and retry_after.isdigit() else None)
    return kind(f"{message} ({where})", code=code, reason=reason, causes=causes, after=float(after) if after else None)


def error_of_event(status: Mapping[str, Any], *, where: str) -> ApiError:
    """The exception for an ERROR event of a watch, whose object is a Status."""
    code = int(status.get("code") or 500)
    return error_of(code, orjson.dumps(status), where=where)


def _status(body: bytes) -> Mapping[str, Any]:
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}
