"""PATCH in its four dialects, each turned into the one update loop."""

from __future__ import annotations

from typing import Final

from modelplane.api.meta import GVK, Object
from modelplane.errors import BadBody, BadPatchItem, PatchRefused, Refusal
from modelplane.server import bodies, refusals, shaping, writing
from modelplane.server.builtin.definitions import names
from modelplane.server.builtin.kinds import definition_name
from modelplane.server.call import Answer, Call
from modelplane.server.patch import json_patch, merge_patch, strategic_merge
from modelplane.server.reading import one
from modelplane.server.request import MAX_BODY

JSON_PATCH: Final = "application/json-patch+json"
MERGE: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
APPLY: Final = "application/apply-patch+yaml"


async def patch(call: Call) -> Answer:
    """Raises a 415 for a dialect that the kind does not take."""
    kind = call.request.content_type
    accepted = [JSON_PATCH, MERGE, APPLY] if call.type.custom else [JSON_PATCH, MERGE, STRATEGIC, APPLY]
    if kind not in accepted:
        if call.type.custom:
            raise refusals.unsupported_media(accepted)
        raise Refusal(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
    if len(call.request.body) > MAX_BODY:
        raise refusals.too_large()
    if kind == APPLY:
        from modelplane.server import applying

        return await applying.apply(call)
    if call.request.query.flag("force"):
        body = "Forbidden: may not be specified for non-apply patch"
        raise refusals.invalid_field("PatchOptions", "meta.k8s.io", "", "force", body, "FieldValueForbidden")
    document = bodies.parse_patch(call.request.body, "" if kind == STRATEGIC else "error decoding patch: ")
    return one(call, await writing.modify(call, lambda old: patched(call, kind, document, old)))


def patched(call: Call, kind: str, document: object, old: Object) -> Object:
    """One patch applied to one object; the result is of the same kind and has only known fields."""
    new = carry_out(call, kind, document, old)
    if not isinstance(new, dict):
        raise refusals.bad_request("the patch leaves something that is no object")
    api_version, named = new.get("apiVersion"), new.get("kind")
    if (api_version, named) != (old["apiVersion"], old["kind"]):
        given, gvk = GVK.parse(str(api_version), str(named)), call.type.gvk
        package = gvk.group.partition(".")[0] or "core"
        why = f"converting ({given.version}.{given.kind}) to ({package}.{gvk.kind}): unknown conversion"
        if definition_name(given) not in names():
            where = 'in scheme "pkg/runtime/scheme.go:111"'
            why = f'no kind "{named}" is registered for version "{api_version}" {where}'
        raise shaping.undecodable(call, new, why, patched=True)
    return shaping.known_fields(call, new, patched=True)


def carry_out(call: Call, kind: str, document: object, old: Object) -> Object:
    """The patched object, whatever it is a patch of (a Scale, for instance)."""
    try:
        if kind == JSON_PATCH:
            return json_patch(old, [] if document is None else document)
        if not isinstance(document, dict):
            if document is None and kind == STRATEGIC:
                return old  # nothing at all, which changes nothing
            if document is None:
                raise refusals.bad_request("Invalid JSON Patch")
            what = {list: "array", str: "string", bool: "bool"}.get(type(document), "number")
            why = f"json: cannot unmarshal {what} into Go value of type map[string]interface {{}}"
            raise refusals.bad_request(why if kind == STRATEGIC else f"error decoding patch: {why}")
        if kind == MERGE:
            return merge_patch(old, document)
        return strategic_merge(old, document, call.type.schema.root)
    except BadPatchItem as error:
        raise Refusal(500, "", str(error)) from None
    except BadBody as error:
        raise refusals.bad_request(str(error)) from None
    except PatchRefused as error:
        text = str(error) if kind != JSON_PATCH else "the server rejected our request due to an error in our request"
        raise Refusal(422, "Invalid", text, {}) from error
