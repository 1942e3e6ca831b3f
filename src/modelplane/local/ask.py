"""Ask a model through a front door, as any OpenAI client would."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import orjson

from modelplane.errors import TemporaryError


class AnswerError(TemporaryError):
    """The front door or the engine answered with an error, or not at all."""


class Answer:
    """One streamed answer: iterate over its pieces; ``engine`` is known once it began."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    async def pieces(self) -> AsyncIterator[str]:
        """The text as it arrives (server-sent events, one JSON chunk each)."""
        async for line in self._response.content:
            data = line.strip()
            if not data.startswith(b"data:"):
                continue
            payload = data[5:].strip()
            if payload == b"[DONE]":
                return
            chunk = orjson.loads(payload)
            if "error" in chunk:
                raise AnswerError(str(chunk["error"].get("message", chunk["error"])))
            for choice in chunk.get("choices") or ():
                piece = (choice.get("delta") or {}).get("content")
                if piece:
                    yield piece


async def models(session: aiohttp.ClientSession, base: str) -> list[str]:
    """Names that the endpoint serves. Raises `AnswerError`."""
    answer = await _call(session, "GET", f"{base}/v1/models")
    listed = orjson.loads(await answer.read())
    return [entry["id"] for entry in listed.get("data") or ()]


async def chat(session: aiohttp.ClientSession, base: str, model: str, text: str) -> Answer:
    """Start a streamed chat completion at a service's base URL. Raises `AnswerError`."""
    body = {"model": model, "messages": [{"role": "user", "content": text}], "stream": True}
    return Answer(await _call(session, "POST", f"{base}/v1/chat/completions", body))


async def complete(session: aiohttp.ClientSession, base: str, model: str, text: str) -> dict[str, Any]:
    """A whole chat completion as JSON. Raises `AnswerError`."""
    body = {"model": model, "messages": [{"role": "user", "content": text}]}
    answer = await _call(session, "POST", f"{base}/v1/chat/completions", body)
    completion: dict[str, Any] = orjson.loads(await answer.read())
    return completion


async def _call(
    session: aiohttp.ClientSession, method: str, url: str, body: dict[str, Any] | None = None
) -> aiohttp.ClientResponse:
    try:
        answer = await session.request(
            method, url, data=orjson.dumps(body) if body else None, headers={"Content-Type": "application/json"}
        )
    except aiohttp.ClientError as error:
        raise AnswerError(f"{url} cannot be reached ({error}); is the fleet up? see `modelplane status`") from error
    if answer.status != 200:
        text = (await answer.text())[:500].strip()
        answer.close()
        raise AnswerError(f"{url} answered {answer.status}: {text or 'no body'}")
    return answer
