"""Request bodies: JSON, YAML and protobuf into objects of the kind that the URL names."""

from __future__ import annotations

import msgspec

from modelplane.api.meta import GVK, Object
from modelplane.server import gojson, refusals
from modelplane.server.builtin.definitions import names
from modelplane.server.builtin.kinds import definition_name
from modelplane.server.objects import decode
from modelplane.server.request import JSON, MAX_BODY, PROTOBUF, YAML, Request
from modelplane.server.schema.decode import decode_json, decode_yaml

ACCEPTED = (JSON, YAML, PROTOBUF)


def parse(request: Request) -> Object:
    """The object in a body, of whatever kind. Raises a 400, 413 or 415."""
    return parse_strictly(request, False)[0]


def parse_strictly(request: Request, duplicates: bool = True) -> tuple[Object, list[str]]:
    """The same with the fields that the text names twice, where those are to be found."""
    body = request.body
    if len(body) > MAX_BODY:
        raise refusals.too_large()
    kind = request.content_type or JSON
    if kind == PROTOBUF:
        from modelplane.server.protobuf import decode as decode_protobuf

        return decode_protobuf(body), []
    if kind == YAML:
        return _object(*parse_yaml(body))
    if kind not in (JSON, "application/x-www-form-urlencoded", "text/plain"):
        raise refusals.unsupported_media(ACCEPTED)
    if duplicates:
        return _object(*decode_json(body))
    try:
        return decode(body), []
    except ValueError as error:
        raise refusals.bad_request(f"error parsing the body as JSON: {error}") from None


def _object(value: object, duplicates: list[str]) -> tuple[Object, list[str]]:
    if not isinstance(value, dict):
        raise refusals.bad_request("the body of the request is not an object")
    return value, duplicates


def parse_yaml(body: bytes) -> tuple[object, list[str]]:
    """YAML, which is often JSON in fact and then read as such: that is a hundred times faster."""
    return decode_json(body) if body.lstrip()[:1] == b"{" else decode_yaml(body)


def parse_patch(body: bytes, before: str = "error decoding patch: ") -> object:
    """A patch: any JSON. Raises a 400, whose words follow ``before``."""
    try:
        return msgspec.json.decode(body)
    except ValueError as error:
        why = "unexpected end of JSON input" if "truncated" in str(error) else error
        raise refusals.bad_request(f"{before}{why}") from None


def expect(obj: Object, gvk: GVK, *, custom: bool, body: bytes = b"") -> Object:
    """Check that a body is of the kind that the path serves; a built-in kind may leave both fields out."""
    api_version, kind = obj.get("apiVersion"), obj.get("kind")
    if not kind or not api_version:
        if custom and kind:
            wanted = f"the API version in the data () does not match the expected API version ({gvk.api_version})"
            raise refusals.bad_request(wanted)
        if custom:
            why = f"Object 'Kind' is missing in '{body.decode(errors='replace')}'"
            raise refusals.bad_request(gojson.unrecognized(gvk.kind, body, why))
        return {**obj, "apiVersion": gvk.api_version, "kind": gvk.kind}
    if not isinstance(api_version, str) or not isinstance(kind, str):
        raise refusals.bad_request(
            f"the object provided is unrecognized (must be of type {gvk.kind}): couldn't get version/kind: "
            "apiVersion and kind must be strings"
        )
    if kind == gvk.kind and api_version == gvk.api_version:
        return obj
    given = GVK.parse(api_version, kind)
    if api_version != gvk.api_version:
        if custom or (kind == gvk.kind and definition_name(given) in names()):
            wanted = f"the API version in the data ({api_version}) does not match the expected API version"
            raise refusals.bad_request(f"{wanted} ({gvk.api_version})")
        if definition_name(given) in names():
            raise refusals.bad_request(_unknown_conversion(given, gvk))
        raise refusals.bad_request(
            f'{kind} in version "{given.version}" cannot be handled as a {gvk.kind}: no kind "{kind}" is registered '
            f'for version "{api_version}" in scheme "pkg/runtime/scheme.go:111"'
        )
    if custom:
        why = f'Invalid value: "{kind}": must be {gvk.kind}'
        name = str((obj.get("metadata") or {}).get("name") or "")
        raise refusals.invalid_field(kind, gvk.group, name, "kind", why)
    raise refusals.bad_request(_unknown_conversion(given, gvk))


def _unknown_conversion(given: GVK, gvk: GVK) -> str:
    package = gvk.group.partition(".")[0] or "core"
    return (
        f'{given.kind} in version "{given.version}" cannot be handled as a {gvk.kind}: '
        f"converting ({given.version}.{given.kind}) to ({package}.{gvk.kind}): unknown conversion"
    )
