"""Every way in which the server says no, in kube-apiserver's words.

Clients branch on code and reason, people read the message, and a comparison with a real kube-apiserver reads all
three: so the sentences are made here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from modelplane.api.meta import Object
from modelplane.errors import Refusal

if TYPE_CHECKING:
    from modelplane.server.resource import ResourceType


def status_of(refusal: Refusal) -> Object:
    """The Status object that answers a refused request."""
    status: Object = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": refusal.metadata,
        "status": "Failure",
        "message": str(refusal),
    }
    if refusal.reason:
        status["reason"] = refusal.reason
    if refusal.details is not None:
        status["details"] = refusal.details
    status["code"] = refusal.code
    return status


def success(name: str, group: str, kind: str, uid: str = "") -> Object:
    """The Status that answers a delete that left nothing to show."""
    details = _details(name, group, kind)
    if uid:
        details["uid"] = uid
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def _details(name: str, group: str, kind: str) -> dict[str, object]:
    details: dict[str, object] = {}
    if name:
        details["name"] = name
    if group:
        details["group"] = group
    if kind:
        details["kind"] = kind
    return details


def _qualified(resource: str, group: str) -> str:
    return f"{resource}.{group}" if group else resource


def not_found(resource: str, group: str, name: str) -> Refusal:
    return Refusal(
        404, "NotFound", f'{_qualified(resource, group)} "{name}" not found', _details(name, group, resource)
    )


def no_such_resource() -> Refusal:
    return Refusal(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(resource: str, group: str, name: str) -> Refusal:
    return Refusal(
        409, "AlreadyExists", f'{_qualified(resource, group)} "{name}" already exists', _details(name, group, resource)
    )


def name_not_generated(resource: str, group: str, name: str) -> Refusal:
    message = (
        f'{_qualified(resource, group)} "{name}" already exists, '
        "the server was not able to generate a unique name for the object"
    )
    details = _details(name, group, resource) | {"retryAfterSeconds": 1}
    return Refusal(409, "AlreadyExists", message, details)


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def conflict(resource: str, group: str, name: str, why: str = MODIFIED) -> Refusal:
    return Refusal(
        409,
        "Conflict",
        f'Operation cannot be fulfilled on {_qualified(resource, group)} "{name}": {why}',
        _details(name, group, resource),
    )


def apply_conflict(message: str, causes: Sequence[Object]) -> Refusal:
    return Refusal(409, "Conflict", message, {"causes": list(causes)})


def unsupported_patch() -> Refusal:
    """Of a PATCH; kube-apiserver says no more about it."""
    return Refusal(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})


def bad_request(message: str) -> Refusal:
    return Refusal(400, "BadRequest", message)


def unauthorized() -> Refusal:
    return Refusal(401, "Unauthorized", "Unauthorized")


def forbidden(resource: str, group: str, name: str, why: str, causes: Sequence[Object] = ()) -> Refusal:
    if not resource:
        message = f"forbidden: {why}"
    elif name:
        message = f'{_qualified(resource, group)} "{name}" is forbidden: {why}'
    else:
        message = f"{_qualified(resource, group)} is forbidden: {why}"
    details = _details(name, group, resource)
    if causes:
        details["causes"] = list(causes)
    return Refusal(403, "Forbidden", message, details)


def invalid(kind: str, group: str, name: str, message: str, causes: Sequence[Object]) -> Refusal:
    details = _details(name, group, kind)
    details["causes"] = list(causes)
    return Refusal(422, "Invalid", message, details)


def invalid_field(kind: str, group: str, name: str, path: str, body: str, reason: str = "FieldValueInvalid") -> Refusal:
    """One wrong field; ``body`` is the sentence after the path, such as ``Required value: must be set``."""
    message = f'{_qualified(kind, group)} "{name}" is invalid: {path}: {body}'
    return invalid(kind, group, name, message, [{"reason": reason, "message": body, "field": path}])


def method_not_allowed() -> Refusal:
    return Refusal(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {})


def not_supported(type_: ResourceType, verb: str) -> Refusal:
    """The 405 of a verb that a path does not take; custom kinds have words of their own for it."""
    if not type_.custom:
        return method_not_allowed()
    details: dict[str, object] = {"group": type_.gvk.group, "kind": type_.plural}
    message = f'{verb} is not supported on resources of kind "{type_.group_resource}"'
    return Refusal(405, "MethodNotAllowed", message, details)


def unsupported_media(accepted: Sequence[str]) -> Refusal:
    message = "the body of the request was in an unknown format - accepted media types include: " + ", ".join(accepted)
    return Refusal(415, "UnsupportedMediaType", message)


def not_acceptable(accepted: Sequence[str]) -> Refusal:
    return Refusal(406, "NotAcceptable", "only the following media types are accepted: " + ", ".join(accepted))


def too_large() -> Refusal:
    return Refusal(413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728")


def expired(message: str) -> Refusal:
    return Refusal(410, "Expired", message)


def revision_too_large(asked: int, current: int) -> Refusal:
    """A revision that this server has not reached: the client is ahead, perhaps of a restored data directory."""
    details: dict[str, object] = {
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    }
    message = f"Timeout: Too large resource version: {asked}, current: {current}"
    return Refusal(504, "Timeout", message, details)


def unavailable(message: str) -> Refusal:
    return Refusal(503, "ServiceUnavailable", message)


def internal(message: str) -> Refusal:
    return Refusal(500, "InternalError", f"Internal error occurred: {message}", {"causes": [{"message": message}]})
