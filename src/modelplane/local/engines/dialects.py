"""The words of the three dialects: OpenAI chat and text completions, Anthropic messages; whole and streamed.

Pure functions from a request body and a generated text to JSON, so that the engine only keeps time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

_TOKEN: Final = re.compile(r"\s*(?:\w+|[^\w\s])")
CHAT: Final = "/v1/chat/completions"
COMPLETIONS: Final = "/v1/completions"
MESSAGES: Final = "/v1/messages"


class BadRequest(Exception):
    """The body is not what the dialect asks for; the text says which field."""


def tokens(text: str) -> list[str]:
    """A tokenizer that is good enough to count with: words and punctuation, with the space before them."""
    return _TOKEN.findall(text)


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a request asks for, in one form for all dialects."""

    path: str
    model: str
    text: str
    max_tokens: int | None
    stream: bool
    include_usage: bool
    ignore_eos: bool
    stop: tuple[str, ...]
    choices: int


def read_prompt(path: str, body: bytes) -> Prompt:
    """Read a request body of one of the three inference paths; raises `BadRequest`."""
    try:
        data = json.loads(body)
    except ValueError:
        raise BadRequest("the body is not JSON") from None
    if not isinstance(data, dict):
        raise BadRequest("the body is not a JSON object")
    model = data.get("model", "")
    if not isinstance(model, str):
        raise BadRequest("model: not a string")
    limit = data.get("max_completion_tokens", data.get("max_tokens"))
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 1):
        raise BadRequest("max_tokens: not a count of 1 or more")
    if path == MESSAGES and limit is None:
        raise BadRequest("max_tokens: field required")
    stop = data.get("stop_sequences" if path == MESSAGES else "stop") or ()
    choices = data.get("n", 1)
    if not isinstance(choices, int) or not 1 <= choices <= 128:
        raise BadRequest("n: not a count from 1 to 128")
    return Prompt(
        path=path,
        model=model,
        text=_asked(path, data),
        max_tokens=limit,
        stream=data.get("stream") is True,
        include_usage=bool((data.get("stream_options") or {}).get("include_usage")),
        ignore_eos=data.get("ignore_eos") is True,
        stop=(stop,) if isinstance(stop, str) else tuple(s for s in stop if isinstance(s, str)),
        choices=1 if path == MESSAGES else choices,
    )


def _asked(path: str, data: dict[str, Any]) -> str:
    if path == COMPLETIONS:
        prompt = data.get("prompt")
        if isinstance(prompt, list) and all(isinstance(p, str) for p in prompt):
            return "\n".join(prompt)
        if not isinstance(prompt, str):
            raise BadRequest("prompt: neither a string nor a list of strings")
        return prompt
    messages = data.get("messages")
    if not isinstance(messages, list) or not messages:
        raise BadRequest("messages: not a list with at least one message")
    parts = [_content(data.get("system"))] if path == MESSAGES else []
    for index, message in enumerate(messages):
        if not isinstance(message, dict) or "role" not in message:
            raise BadRequest(f"messages[{index}]: not a message with a role")
        parts.append(_content(message.get("content")))
    return "\n".join(part for part in parts if part)


def _content(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return " ".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return ""


def answer(prompt: Prompt, pod: str, text: str) -> tuple[list[str], str]:
    """The tokens to answer with, and the finish reason in OpenAI's words."""
    said = tokens(text or "A mock engine answers here; no model was loaded.")
    generated = [*tokens(f"{pod}:"), " " + said[0].lstrip(), *said[1:]] if said else tokens(f"{pod}:")
    if prompt.ignore_eos and prompt.max_tokens:
        repeated = generated * (prompt.max_tokens // len(generated) + 1)
        return repeated[: prompt.max_tokens], "length"
    for stop in prompt.stop:
        at = "".join(generated).find(stop)
        if stop and at >= 0:
            generated = tokens("".join(generated)[:at])
    if prompt.max_tokens is not None and len(generated) > prompt.max_tokens:
        return generated[: prompt.max_tokens], "length"
    return generated, "stop"


@dataclass(frozen=True, slots=True)
class Reply:
    """Everything about one answer that the dialects put into words."""

    id: str
    created: int
    model: str
    prompt: Prompt
    prompt_tokens: int
    generated: list[str]
    finish: str

    @property
    def usage(self) -> dict[str, int]:
        made = len(self.generated) * self.prompt.choices
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": made,
            "total_tokens": self.prompt_tokens + made,
        }

    def whole(self) -> dict[str, Any]:
        text = "".join(self.generated)
        if self.prompt.path == MESSAGES:
            return {
                **self._message(),
                "content": [{"type": "text", "text": text}],
                "stop_reason": self._anthropic_finish(),
                "usage": {"input_tokens": self.prompt_tokens, "output_tokens": len(self.generated)},
            }
        if self.prompt.path == CHAT:
            choices: list[dict[str, Any]] = [
                {"index": n, "message": {"role": "assistant", "content": text}, "finish_reason": self.finish}
                for n in range(self.prompt.choices)
            ]
        else:
            choices = [{"index": n, "text": text, "finish_reason": self.finish} for n in range(self.prompt.choices)]
        return {**self._envelope("chat.completion", "text_completion"), "choices": choices, "usage": self.usage}

    def opening(self) -> Iterator[bytes]:
        if self.prompt.path == MESSAGES:
            start = {**self._message(), "usage": {"input_tokens": self.prompt_tokens, "output_tokens": 0}}
            yield _event("message_start", {"message": start})
            yield _event("content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}})
        elif self.prompt.path == CHAT:
            for n in range(self.prompt.choices):
                yield self._chunk({"index": n, "delta": {"role": "assistant", "content": ""}, "finish_reason": None})

    def token(self, text: str) -> Iterator[bytes]:
        if self.prompt.path == MESSAGES:
            yield _event("content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": text}})
            return
        for n in range(self.prompt.choices):
            said = {"delta": {"content": text}} if self.prompt.path == CHAT else {"text": text}
            yield self._chunk({"index": n, **said, "finish_reason": None})

    def closing(self) -> Iterator[bytes]:
        if self.prompt.path == MESSAGES:
            yield _event("content_block_stop", {"index": 0})
            delta = {"stop_reason": self._anthropic_finish(), "stop_sequence": None}
            yield _event("message_delta", {"delta": delta, "usage": {"output_tokens": len(self.generated)}})
            yield _event("message_stop", {})
            return
        for n in range(self.prompt.choices):
            end: dict[str, Any] = {"delta": {}} if self.prompt.path == CHAT else {"text": ""}
            yield self._chunk({"index": n, **end, "finish_reason": self.finish})
        if self.prompt.include_usage:
            envelope = self._envelope("chat.completion.chunk", "text_completion")
            yield _data({**envelope, "choices": [], "usage": self.usage})
        yield b"data: [DONE]\n\n"

    def _chunk(self, choice: dict[str, Any]) -> bytes:
        return _data({**self._envelope("chat.completion.chunk", "text_completion"), "choices": [choice]})

    def _envelope(self, chat: str, text: str) -> dict[str, Any]:
        is_chat = self.prompt.path == CHAT
        prefix = "chatcmpl" if is_chat else "cmpl"
        kind = chat if is_chat else text
        return {"id": f"{prefix}-{self.id}", "object": kind, "created": self.created, "model": self.model}

    def _message(self) -> dict[str, Any]:
        return {
            "id": f"msg_{self.id}", "type": "message", "role": "assistant", "model": self.model,
            "content": [], "stop_reason": None, "stop_sequence": None,
        }  # fmt: skip

    def _anthropic_finish(self) -> str:
        return "max_tokens" if self.finish == "length" else "end_turn"


def _data(body: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(body).encode() + b"\n\n"


def _event(kind: str, body: dict[str, Any]) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **body})}\n\n".encode()


def error_body(path: str, status: int, message: str) -> bytes:
    """An error in the dialect of the path."""
    if path.startswith(MESSAGES):
        kinds = {400: "invalid_request_error", 404: "not_found_error", 429: "rate_limit_error", 503: "overloaded_error"}
        body: dict[str, Any] = {"type": "error", "error": {"type": kinds.get(status, "api_error"), "message": message}}
    else:
        kinds = {400: "BadRequestError", 404: "NotFoundError", 429: "RateLimitError"}
        kind = kinds.get(status, "InternalServerError")
        body = {"error": {"message": message, "type": kind, "param": None, "code": status}}
    return json.dumps(body).encode()
