"""The scale subresource: one small object that every scalable kind answers with, and that autoscalers write."""

from __future__ import annotations

from modelplane.api.meta import Object
from modelplane.server import bodies, refusals, shaping, views, writing
from modelplane.server.builtin import builtin_schema
from modelplane.server.call import Answer, Call, answer, view
from modelplane.server.columns import builtin_printer
from modelplane.server.patching import APPLY, STRATEGIC, carry_out
from modelplane.server.resource import SCALE, ScalePaths


async def answer_scale(call: Call) -> Answer:
    """GET, PUT or PATCH of a Scale."""
    paths = call.type.scale
    if paths is None:
        raise refusals.no_such_resource()
    method = call.request.method
    if method in ("GET", "HEAD"):
        obj = view(call.type, call.entry())
        if call.type.custom and _read(obj, paths.spec) is None:
            raise refusals.internal(f'the spec replicas field "{paths.spec}" does not exist')
        return _answer(call, scale_of(obj, paths))
    if method == "PUT":
        body = shaping.decoded_as(call, SCALE)
        return await _write(call, paths, lambda _: body)
    if method == "PATCH":
        kind = call.request.content_type
        if kind == APPLY:
            document: object = bodies.parse_yaml(call.request.body)[0]
            kind = "application/merge-patch+json"
        else:
            document = bodies.parse_patch(call.request.body)
        if kind == STRATEGIC:
            kind = "application/merge-patch+json"
        return await _write(call, paths, lambda scale: _decoded(carry_out(call, kind, document, scale)))
    raise refusals.method_not_allowed()


def _decoded(scale: Object) -> Object:
    """What a patch leaves of a Scale, if it still is one. Raises a 422."""
    mismatch = builtin_schema(SCALE).decoding_error(scale)
    if mismatch:
        raise shaping.not_patched(scale, mismatch)
    return scale


def scale_of(obj: Object, paths: ScalePaths) -> Object:
    """The Scale of an object."""
    metadata = obj["metadata"]
    status: Object = {"replicas": _read(obj, paths.status) or 0}
    selector = _selector(_read(obj, paths.selector) if paths.selector else None)
    if selector:
        status["selector"] = selector
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    replicas = _read(obj, paths.spec)
    return {
        "kind": "Scale",
        "apiVersion": SCALE.api_version,
        "metadata": {key: metadata[key] for key in kept if key in metadata},
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


async def _write(call: Call, paths: ScalePaths, change: writing.Change) -> Answer:
    def rescale(old: Object) -> Object:
        scale = shaping.of_kind(bodies.expect(change(scale_of(old, paths)), SCALE, custom=False), SCALE)
        metadata = scale.get("metadata") or {}
        revision = metadata.get("resourceVersion")
        if revision and revision != old["metadata"]["resourceVersion"]:
            raise call.conflict(call.name)
        if metadata.get("name", call.name) != call.name:
            raise refusals.bad_request(
                f"the name of the object ({metadata['name']}) does not match the name on the URL ({call.name})"
            )
        replicas = (scale.get("spec") or {}).get("replicas", 0)
        if replicas < 0:
            body = f"Invalid value: {replicas}: must be greater than or equal to 0"
            raise refusals.invalid_field("Scale", SCALE.group, call.name, "spec.replicas", body)
        return _replaced(old, paths.spec.strip(".").split("."), replicas)

    entry = await writing.modify(call, rescale)
    return _answer(call, scale_of(view(call.type, entry), paths))


def _answer(call: Call, scale: Object) -> Answer:
    """A Scale as itself, as a row of a table, or its metadata alone."""
    if call.media.table:
        revision = scale["metadata"].get("resourceVersion", "")
        table = views.table(call, [scale], revision, printer=builtin_printer(SCALE))
        return answer(call.media, table)
    return answer(call.media, views.partial(scale, call.media.version) if call.media.partial else scale)


def _read(obj: Object, path: str) -> object:
    value: object = obj
    for part in path.strip(".").split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(part)
    return value


def _replaced(obj: Object, path: list[str], value: object) -> Object:
    if len(path) == 1:
        return {**obj, path[0]: value}
    return {**obj, path[0]: _replaced(obj.get(path[0]) or {}, path[1:], value)}


def _selector(value: object) -> str:
    """A label selector in its one-line form."""
    if isinstance(value, str):
        return value
    if not isinstance(value, dict):
        return ""
    if not ({"matchLabels", "matchExpressions"} & value.keys()):
        return ",".join(f"{key}={value[key]}" for key in sorted(value))
    terms = [f"{key}={label}" for key, label in sorted((value.get("matchLabels") or {}).items())]
    for expression in value.get("matchExpressions") or ():
        key, values = expression["key"], ",".join(sorted(expression.get("values") or ()))
        match expression["operator"]:
            case "In":
                terms.append(f"{key} in ({values})")
            case "NotIn":
                terms.append(f"{key} notin ({values})")
            case "Exists":
                terms.append(key)
            case _:
                terms.append(f"!{key}")
    return ",".join(terms)
