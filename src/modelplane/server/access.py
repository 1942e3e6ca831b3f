"""Review kinds: questions about identities and permissions, answered at once and never stored."""

from __future__ import annotations

import msgspec

from modelplane.api.meta import Object
from modelplane.server import ownership, refusals, shaping
from modelplane.server.authn import AUDIENCE
from modelplane.server.authz import Attributes, Rule
from modelplane.server.call import Answer, Call, answer
from modelplane.server.objects import now
from modelplane.server.request import User
from modelplane.server.schema.errors import shown
from modelplane.server.shaping import arranged_metadata


async def review(call: Call) -> Answer:
    """POST of a review. Raises a 405 for every other method."""
    if call.request.method != "POST" or call.request.target.name:
        raise refusals.method_not_allowed()
    body = shaping.decoded_as(call, call.type.gvk)
    spec = body.get("spec") or {}
    body = ownership.tracked(call, {**body, "metadata": dict(body.get("metadata") or {})}, None)
    named = {k: v for k, v in body["metadata"].items() if k not in ("managedFields", "namespace")}
    if named and call.type.gvk.group == "authorization.k8s.io":
        why = f"Invalid value: {shown(arranged_metadata(body['metadata']))}: must be empty"
        raise refusals.invalid_field("", call.type.gvk.group, "", "metadata", why)
    match call.type.gvk.kind:
        case "SelfSubjectReview":
            status: Object = {"userInfo": user_info(call.request.user)}
        case "SelfSubjectAccessReview":
            status = _decide(call, call.request.user, spec)
        case "SubjectAccessReview" | "LocalSubjectAccessReview":
            status = _decide(call, _subject(call, spec), spec)
        case "SelfSubjectRulesReview":
            status = _rules(call, spec)
            body = {**body, "spec": {}}
        case "TokenReview":
            status = _token(call, spec)
        case "Binding":
            from modelplane.server import subresources

            return await subresources.bind(call, body)
        case _:
            raise refusals.method_not_allowed()
    metadata = {**(body.get("metadata") or {})}
    if call.type.gvk.kind == "SelfSubjectReview":
        metadata["creationTimestamp"] = now()
    return answer(call.media, {**body, "metadata": metadata, "status": status}, 201)


def user_info(user: User) -> Object:
    """A user as authentication.k8s.io/v1 has it."""
    info: Object = {"username": user.name}
    if user.uid:
        info["uid"] = user.uid
    if user.groups:
        info["groups"] = list(user.groups)
    if user.extra:
        info["extra"] = dict(user.extra)
    return info


def _subject(call: Call, spec: Object) -> User:
    if not spec.get("user") and not spec.get("groups"):
        why = 'Invalid value: "": at least one of user or group must be specified'
        raise refusals.invalid_field("", call.type.gvk.group, "", "spec.user", why)
    return User(spec.get("user", ""), tuple(spec.get("groups") or ()), spec.get("uid", ""), spec.get("extra") or {})


def _decide(call: Call, user: User, spec: Object) -> Object:
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is not None and path is not None:
        shown_path = shown({"Path": path.get("path", ""), "Verb": path.get("verb", "")})
        body = f"Invalid value: {shown_path}: cannot be specified in combination with resourceAttributes"
        raise refusals.invalid_field("", call.type.gvk.group, "", "spec.nonResourceAttributes", body)
    if resource is None and path is None:
        body = "Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified"
        raise refusals.invalid_field("", call.type.gvk.group, "", "spec.resourceAttributes", body)
    if path is not None and call.type.gvk.kind == "LocalSubjectAccessReview":
        shown_path = shown({"Path": path.get("path", ""), "Verb": path.get("verb", "")})
        body = f"Invalid value: {shown_path}: disallowed on this kind of request"
        raise refusals.invalid_field("", call.type.gvk.group, "", "spec.nonResourceAttributes", body)
    if path is not None:
        ask = Attributes(user=user, verb=path.get("verb", ""), path=path.get("path", ""))
    else:
        resource = resource or {}
        namespace = resource.get("namespace", "")
        if call.type.gvk.kind == "LocalSubjectAccessReview" and namespace != call.namespace:
            body = f'Invalid value: "{namespace}": must match metadata.namespace'
            raise refusals.invalid_field("", call.type.gvk.group, "", "spec.resourceAttributes.namespace", body)
        ask = Attributes(
            user=user,
            verb=resource.get("verb", ""),
            group=resource.get("group", ""),
            version=resource.get("version", ""),
            resource=resource.get("resource", ""),
            subresource=resource.get("subresource", ""),
            namespace=namespace,
            name=resource.get("name", ""),
        )
    allowed, why = call.backend.authorizer.allowed(ask)
    status: Object = {"allowed": allowed}
    if why:
        status["reason"] = why
    return status


def _rules(call: Call, spec: Object) -> Object:
    namespace = spec.get("namespace", "")
    if not namespace:
        raise refusals.bad_request("no namespace on request")
    rules = call.backend.authorizer.rules(call.request.user, namespace)
    return {
        "resourceRules": [_plain(rule) for rule in rules if rule.resources],
        "nonResourceRules": [
            {"verbs": rule.verbs, "nonResourceURLs": rule.non_resource_urls} for rule in rules if rule.non_resource_urls
        ],
        "incomplete": False,
    }


def _plain(rule: Rule) -> Object:
    plain: Object = msgspec.to_builtins(rule)
    plain.pop("nonResourceURLs", None)
    return plain


def _token(call: Call, spec: Object) -> Object:
    if not spec.get("token"):
        raise refusals.bad_request("token is required for TokenReview in authentication")
    audiences = spec.get("audiences") or [AUDIENCE]
    user = call.backend.authenticator.review(spec.get("token", ""), audiences)
    if user is None:
        return {"user": {}, "error": "invalid bearer token"}
    return {"authenticated": True, "user": user_info(user), "audiences": audiences}
