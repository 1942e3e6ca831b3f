"""The exception tree of the project, in one place.

Two words carry the meaning for a reconciler: a *permanent* error waits for somebody to change an input, a *temporary*
one is tried again. Everything raised on purpose is one of these; a message says what, where and what to do, and
never carries a secret.

    ModelplaneError
      PermanentError
        InvalidKubeconfig           a kubeconfig that cannot be used, with the field
      TemporaryError
      LeaseLost                     another operator leads, or nobody can say who
      ApiError                      a Kubernetes API answered with a failure, or not at all
        NotFound, AlreadyExists, Gone
        Invalid (permanent), Forbidden, Unauthorized
        Conflict, Throttled, ServerFailure, Unreachable (temporary)
"""

from __future__ import annotations


class ModelplaneError(Exception):
    """Root of everything that this project raises on purpose."""


class PermanentError(ModelplaneError):
    """Trying again cannot help; an input has to change."""


class InvalidObject(PermanentError):
    """An object does not have the shape of its kind; the message names the object and the field."""


class TemporaryError(ModelplaneError):
    """May succeed later. ``after`` is a hint in seconds, None leaves the choice to the caller's back-off."""

    def __init__(self, message: str, *, after: float | None = None) -> None:
        super().__init__(message)
        self.after = after


class LeaseLost(ModelplaneError):
    """This operator may not work any longer: another one leads, or its Lease could not be renewed in time."""


class InvalidKubeconfig(PermanentError):
    """A kubeconfig that cannot be used. ``field`` is the dotted path of what is wrong in it."""

    def __init__(self, message: str, *, field: str = "") -> None:
        super().__init__(message)
        self.field = field


class ApiError(ModelplaneError):
    """A Kubernetes API refused a request. ``reason`` is the machine-readable word of its Status, ``code`` the HTTP status
    (0 when there was no answer), ``causes`` the field errors of a refusal as (field, message)."""

    def __init__(
        self,
        message: str,
        *,
        code: int = 0,
        reason: str = "",
        causes: tuple[tuple[str, str], ...] = (),
        after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.causes = causes
        self.after = after


class NotFound(ApiError):
    """No such object, namespace or kind."""


class AlreadyExists(ApiError):
    """A create met an object of that name."""


class Gone(ApiError):
    """A resource version or continue token is too old: list again."""


class Invalid(ApiError, PermanentError):
    """The object was refused as it is: schema, rule, or malformed request."""


class Unauthorized(ApiError):
    """The credential is missing, expired or unknown."""


class Forbidden(ApiError):
    """The identity may not do this; grant it, or admission forbids it (a namespace being deleted)."""


class Conflict(ApiError, TemporaryError):
    """Somebody else wrote first: read again and retry. Also a field owned by another manager."""


class Throttled(ApiError, TemporaryError):
    """The server asks to come back later."""


class ServerFailure(ApiError, TemporaryError):
    """The server failed, or is not ready yet."""


class Unreachable(ApiError, TemporaryError):
    """No answer: nothing listens, the connection broke, TLS failed, or the time was up."""


class BadBody(PermanentError):
    """A request body that cannot be read as what it claims to be. The API server answers 400."""


class BadPatchItem(BadBody):
    """An item of a strategic merge patch without its merge key, or with a directive unknown. The API server answers 500."""


class PatchRefused(PermanentError):
    """A well-formed patch that does not fit the object that it meets. The API server answers 422."""


class ApplyConflict(PermanentError):
    """Server-side apply would take fields from other field managers. The API server answers 409.

    ``conflicts`` are pairs of the other side (``"kubectl" using apps/v1``) and a field path (``.spec.replicas``).
    """

    def __init__(self, message: str, conflicts: tuple[tuple[str, str], ...]) -> None:
        super().__init__(message)
        self.conflicts = conflicts


class Refusal(ModelplaneError):
    """The embedded API server's "no": an HTTP code with the fields of a Kubernetes Status.

    ``details`` holds name, group, kind, uid, causes and retryAfterSeconds as the Status has them; ``metadata`` is
    filled only by an expired list, which offers a continue token.
    """

    def __init__(self, code: int, reason: str, message: str, details: dict[str, object] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.details = details
        self.metadata: dict[str, object] = {}
