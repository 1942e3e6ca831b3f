"""JSON merge patch (RFC 7396): what `kubectl apply`, `label` and `edit` send for custom kinds."""

from __future__ import annotations

from modelplane.api.meta import Object
from modelplane.errors import BadBody


def merge_patch(obj: Object, patch: object) -> Object:
    """The object with the patch merged in: null deletes, objects merge, everything else replaces."""
    if not isinstance(patch, dict):
        raise BadBody("a merge patch is a JSON object; this body is something else")
    return _merge(obj, patch)


def _merge(target: object, patch: Object) -> Object:
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            merged[key] = _merge(merged.get(key), value)
        else:
            merged[key] = value
    return merged
