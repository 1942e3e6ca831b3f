"""Request bodies: JSON, YAML and protobuf into objects of the kind that the URL names."""

from __future__ import annotations

import msgspec

from modelplane.api.meta import GVK, Object
from modelplane.server import refusals
from modelplane.server.objects import decode
from modelplane.server.request import JSON, MAX_BODY, PROTOBUF, YAML, Request

ACCEPTED = (JSON, YAML)


def parse(request: Request) -> Object:
    """The object in a body, of whatever kind. Raises a 400, 413 or 415."""
    body = request.body
    if len(body) > MAX_BODY:
        raise refusals.too_large()
    kind = request.content_type or JSON
    if kind == PROTOBUF:
        raise refusals.unsupported_media(ACCEPTED)
    if kind == YAML or kind == "application/x-yaml":
        return parse_yaml(body)
    if kind not in (JSON, "application/x-www-form-urlencoded", "text/plain"):
        raise refusals.unsupported_media(ACCEPTED)
    return parse_json(body)


def parse_json(body: bytes) -> Object:
    try:
        return decode(body)
    except ValueError as error:
        raise refusals.bad_request(f"error decoding the request body as a JSON object: {error}") from None


def parse_yaml(body: bytes) -> Object:
    """YAML is a superset of JSON here: most patches of type apply are JSON in fact, and are read as such."""
    if body.lstrip()[:1] == b"{":
        try:
            return decode(body)
        except ValueError:
            pass
    import yaml

    try:
        loaded = yaml.load(body, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        raise refusals.bad_request(f"error parsing YAML: {error}") from None
    if not isinstance(loaded, dict):
        raise refusals.bad_request("error parsing YAML: expected an object")
    return loaded


def expect(obj: Object, gvk: GVK, *, custom: bool) -> Object:
    """Check that a body is of the kind that the path serves; a built-in kind may leave both fields out."""
    api_version, kind = obj.get("apiVersion"), obj.get("kind")
    if not kind or not api_version:
        if custom:
            missing = "Kind" if not kind else "apiVersion"
            raise refusals.bad_request(f"Object '{missing}' is missing in the request body")
        return {**obj, "apiVersion": gvk.api_version, "kind": gvk.kind}
    if api_version != gvk.api_version:
        raise refusals.bad_request(
            f"the API version in the data ({api_version}) does not match the expected API version ({gvk.api_version})"
        )
    if kind != gvk.kind:
        if custom:
            raise refusals.bad_request(f"the kind in the data ({kind}) does not match the expected kind ({gvk.kind})")
        given = GVK.parse(api_version, kind)
        raise refusals.bad_request(f'{given.kind} in version "{given.version}" cannot be handled as a {gvk.kind}')
    return obj


def parse_patch(body: bytes) -> object:
    """A patch: any JSON. Raises a 400."""
    try:
        return msgspec.json.decode(body)
    except ValueError as error:
        raise refusals.bad_request(f"error decoding patch: {error}") from None
