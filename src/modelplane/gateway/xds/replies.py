"""The answers that a proxy gives itself, in the words of the API that the caller speaks.

A caller of the OpenAI or the Anthropic API parses errors; plain text from a proxy breaks its retry logic. Whether an
answer is a missing route, no live endpoint or a timeout is told apart by Envoy's response flags.
"""

from __future__ import annotations

from typing import Final

import msgspec

from modelplane.api.meta import Object


class _Reply(msgspec.Struct, frozen=True):
    flags: tuple[str, ...]
    status: int
    openai: str
    anthropic: str
    code: str
    message: str
    retry_after: str = ""


_REPLIES: Final = (
    _Reply(
        ("NR",),
        404,
        "not_found_error",
        "not_found_error",
        "service_not_found",
        "No model service answers at this path. The path is /NAMESPACE/SERVICE/v1/...; "
        "list the services with: kubectl get modelservices -A",
    ),
    _Reply(
        ("UH", "NC", "NFCF", "UF", "UC", "UR", "LR", "URX", "UO"),
        503,
        "service_unavailable",
        "overloaded_error",
        "no_ready_endpoint",
        "No endpoint of this model service can answer at the moment. Try again shortly; "
        "if it lasts, see the service's conditions with: kubectl describe modelservice",
        "1",
    ),
    _Reply(
        ("UT", "DT", "SI", "UMSDR"),
        504,
        "timeout",
        "timeout_error",
        "request_timeout",
        "The model service did not answer within the time that its route allows.",
    ),
)


def local_replies() -> Object:
    """The local_reply_config of every listener."""
    return {"mappers": [_mapper(reply, anthropic) for reply in _REPLIES for anthropic in (True, False)]}


def _mapper(reply: _Reply, anthropic: bool) -> Object:
    filters: list[Object] = [{"response_flag_filter": {"flags": list(reply.flags)}}]
    if anthropic:
        messages = {"name": ":path", "string_match": {"safe_regex": {"regex": r"[^?]*/v1/messages(/[^?]*)?(\?.*)?"}}}
        filters.append({"header_filter": {"header": messages}})
        body: Object = {"type": "error", "error": {"type": reply.anthropic, "message": reply.message}}
    else:
        body = {"error": {"message": reply.message, "type": reply.openai, "param": None, "code": reply.code}}
    result: Object = {
        "filter": {"and_filter": {"filters": filters}} if len(filters) > 1 else filters[0],
        "status_code": reply.status,
        "body_format_override": {"json_format": body, "content_type": "application/json"},
    }
    if reply.retry_after:
        result["headers_to_add"] = [{"header": {"key": "retry-after", "value": reply.retry_after}}]
    return result
