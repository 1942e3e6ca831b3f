"""The exception tree of the project, in one place.

Two words carry the meaning for a reconciler: a *permanent* error waits for somebody to change an input, a *temporary*
one is tried again. Everything raised on purpose is one of these; a message says what, where and what to do, and
never carries a secret.
"""

from __future__ import annotations


class ModelplaneError(Exception):
    """Root of everything that this project raises on purpose."""


class PermanentError(ModelplaneError):
    """Trying again cannot help; an input has to change."""


class TemporaryError(ModelplaneError):
    """May succeed later. ``after`` is a hint in seconds, None leaves the choice to the caller's back-off."""

    def __init__(self, message: str, *, after: float | None = None) -> None:
        super().__init__(message)
        self.after = after
