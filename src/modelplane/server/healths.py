"""Health: whether the server is alive and ready, in one word or check by check.

A server that answers has its store open and its kinds read, so the checks can only be passed.
"""

from __future__ import annotations

from typing import Final

from modelplane.server.call import Answer
from modelplane.server.request import Query

CHECKS: Final = ("ping", "etcd")
"""The second is the name under which probes ask for the store."""
_TEXT: Final = "text/plain; charset=utf-8"


def paths() -> list[str]:
    """All paths that there are."""
    return [path for name in ("healthz", "livez", "readyz") for path in (f"/{name}", *(f"/{name}/{c}" for c in CHECKS))]


def answer(path: str, query: Query) -> Answer | None:
    """The answer of a health path, None for another."""
    if path not in paths():
        return None
    name = path.split("/")[1]
    if path != f"/{name}" or not query.has("verbose"):
        return Answer(200, b"ok", _TEXT, _PLAIN)
    left_out = query.all("exclude")
    lines = [f"[+]{check} {'excluded: ok' if check in left_out else 'ok'}" for check in CHECKS]
    unknown = ", ".join(f'"{check}"' for check in left_out if check not in CHECKS)
    if unknown:
        lines.append(f"warn: some health checks cannot be excluded: no matches for {unknown}")
    return Answer(200, "\n".join([*lines, f"{name} check passed\n"]).encode(), _TEXT, _PLAIN)


_PLAIN: Final = {"X-Content-Type-Options": "nosniff"}
