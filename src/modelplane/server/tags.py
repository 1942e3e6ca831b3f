"""Entity tags: what a client has already is not sent again."""

from __future__ import annotations

from collections.abc import Mapping

from modelplane.server.call import Answer


def quoted(digest: str) -> str:
    return f'"{digest}"'


def holds(headers: Mapping[str, str], digest: str) -> bool:
    """Whether a request says that its sender has what has this digest."""
    held = [tag.strip().removeprefix("W/") for tag in headers.get("if-none-match", "").split(",")]
    return quoted(digest) in held or "*" in held


def unchanged(digest: str, headers: Mapping[str, str]) -> Answer:
    """The answer to somebody who has it; ``headers`` are those that the whole answer has.

    A content type would replace that of what the client has, which may be another than of this answer.
    """
    return Answer(304, b"", "", {**headers, "ETag": quoted(digest)})
