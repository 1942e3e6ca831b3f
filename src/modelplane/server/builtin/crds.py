"""Defaults and rules of CustomResourceDefinition objects: names, versions, structural schemas."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Final

import msgspec

from modelplane.api.meta import Object
from modelplane.server import jsonpath
from modelplane.server.builtin import crdrules
from modelplane.server.builtin.pods import fill
from modelplane.server.schema.cel import CelEngine
from modelplane.server.schema.errors import ErrorType, FieldError, supported
from modelplane.server.schema.formats import pattern as compile_pattern
from modelplane.server.schema.names import dns_1035_label, dns_subdomain
from modelplane.server.schema.node import Compiler
from modelplane.server.schema.rules import Rules
from modelplane.server.schema.validate import join, validate

_SCOPES: Final = ("Cluster", "Namespaced")
_COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")
_TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_JUNCTORS: Final = ("allOf", "anyOf", "oneOf")
_FIXED: Final = ("group", "scope")


def defaults(crd: Object) -> None:
    """Fill in what kube-apiserver does; changes the object."""
    spec = crd.setdefault("spec", {})
    names = spec.setdefault("names", {})
    kind = names.get("kind") or ""
    fill(names, singular=kind.lower(), listKind=f"{kind}List")
    fill(spec, conversion={})
    fill(spec["conversion"], strategy="None")
    for version in spec.get("versions") or ():
        for column in version.get("additionalPrinterColumns") or ():
            column.setdefault("type", "string")
    status = crd.setdefault("status", {})
    for field in ("conditions", "storedVersions"):
        status.setdefault(field, [])
    status.setdefault("acceptedNames", {"plural": "", "kind": ""})


def check(crd: Object, old: Object | None) -> list[FieldError]:
    """Everything that keeps a definition from being served."""
    return [*_identity(crd, old), *_versions(crd, old)]


def _required(path: str, message: str = "") -> FieldError:
    return FieldError(path=path, type=ErrorType.REQUIRED, message=message)


def _invalid(path: str, value: object, message: str) -> FieldError:
    return FieldError(path=path, type=ErrorType.INVALID, bad_value=value, message=message)


def _forbidden(path: str, message: str) -> FieldError:
    return FieldError(path=path, type=ErrorType.FORBIDDEN, message=message)


def _identity(crd: Object, old: Object | None) -> Iterator[FieldError]:
    spec = crd.get("spec") or {}
    names = spec.get("names") or {}
    group, plural = spec.get("group") or "", names.get("plural") or ""
    name = (crd.get("metadata") or {}).get("name") or ""
    if old is None and name != f"{plural}.{group}":
        yield _invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')
    if not group:
        yield _required("spec.group")
    else:
        yield from (_invalid("spec.group", group, words) for words in dns_subdomain(group))
        if "." not in group:
            yield _invalid("spec.group", group, "should be a domain with at least one dot")
    scope = spec.get("scope")
    if not scope:
        yield _required("spec.scope")
    elif scope not in _SCOPES:
        yield supported("spec.scope", scope, _SCOPES)
    for field in ("plural", "singular", "kind", "listKind"):
        value = names.get(field)
        if not value:
            yield _required(f"spec.names.{field}")
        else:
            told = dns_1035_label(value.lower())
            yield from (_invalid(f"spec.names.{field}", value, words) for words in told)
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        yield _invalid("spec.names.listKind", names["listKind"], "kind and listKind may not be the same")
    for position, short in enumerate(names.get("shortNames") or ()):
        yield from (_invalid(f"spec.names.shortNames[{position}]", short, words) for words in dns_1035_label(short))
    if old is not None:
        before = old.get("spec") or {}
        for field in _FIXED:
            if before.get(field) and spec.get(field) != before[field]:
                yield _invalid(f"spec.{field}", spec.get(field), "field is immutable")


def _versions(crd: Object, old: Object | None) -> Iterator[FieldError]:
    spec = crd.get("spec") or {}
    versions = spec.get("versions") or []
    stored_schemas = [version.get("schema") for version in ((old or {}).get("spec") or {}).get("versions") or ()]
    names = [version.get("name") for version in versions]
    stored = [version for version in versions if version.get("storage")]
    if len(stored) != 1:
        yield _invalid("spec.versions", names, "must have exactly one version marked as storage version")
    for position, version in enumerate(versions):
        path = f"spec.versions[{position}]"
        name = version.get("name") or ""
        yield from (_invalid(f"{path}.name", name, words) for words in dns_1035_label(name))
        if name in names[:position]:
            yield _invalid("spec.versions", name, "must contain unique version names")
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        # The schema of a single version is judged in the place where definitions once had the schema of all versions.
        where = "spec.validation.openAPIV3Schema" if len(versions) == 1 else f"{path}.schema.openAPIV3Schema"
        if schema is None:
            yield _required(f"{path}.schema.openAPIV3Schema", "")
        else:
            found = list(_root(schema, where))
            yield from found
            if not found and version["schema"] not in stored_schemas:
                yield from crdrules.check(schema, where)
        yield from _columns(version, path)
        yield from _subresources(version, path)
    for field in (crd.get("status") or {}).get("storedVersions") or ():
        if field not in names:
            message = "must not remove a version that objects were stored in; see status.storedVersions"
            yield _invalid("spec.versions", names, f"{message} ({field})")


def _columns(version: Object, path: str) -> Iterator[FieldError]:
    for position, column in enumerate(version.get("additionalPrinterColumns") or ()):
        where = f"{path}.additionalPrinterColumns[{position}]"
        if not column.get("name"):
            yield _required(f"{where}.name")
        if column.get("type") not in _COLUMN_TYPES:
            yield supported(f"{where}.type", column.get("type"), _COLUMN_TYPES)
        if not column.get("jsonPath"):
            yield _required(f"{where}.jsonPath")
            continue
        try:
            jsonpath.parse(column["jsonPath"])
        except ValueError as error:
            yield _invalid(f"{where}.jsonPath", column["jsonPath"], f"illegal JSONPath: {error}")


def _subresources(version: Object, path: str) -> Iterator[FieldError]:
    scale = (version.get("subresources") or {}).get("scale")
    if scale is None:
        return
    for field, root in (("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")):
        value = scale.get(field) or ""
        where = f"{path}.subresources.scale.{field}"
        if not value:
            yield _required(where)
        elif not value.startswith(root):
            yield _invalid(where, value, f"should be a json path under {root.rstrip('.')}")
    label = scale.get("labelSelectorPath") or ""
    if label and not label.startswith((".spec.", ".status.")):
        yield _invalid(
            f"{path}.subresources.scale.labelSelectorPath", label, "should be a json path under .spec or .status"
        )


def _root(schema: Object, path: str) -> Iterator[FieldError]:
    type_ = schema.get("type")
    if not type_:
        yield _required(f"{path}.type", "must not be empty at the root")
    elif type_ != "object":
        yield _invalid(f"{path}.type", type_, "must be object at the root")
    if schema.get("nullable"):
        yield _forbidden(f"{path}.nullable", "nullable cannot be true at the root")
    meta = (schema.get("properties") or {}).get("metadata") or {}
    if set(meta.get("properties") or {}) - {"name", "generateName"}:
        message = "must not specify anything other than name and generateName, but metadata is implicitly specified"
        yield _forbidden(f"{path}.properties[metadata]", message)
    yield from _structural(schema, path, "at the root")


def _structural(schema: Object, path: str, where: str) -> Iterator[FieldError]:
    type_ = schema.get("type")
    loose = schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields")
    if not type_ and not loose and where != "at the root":
        yield _required(f"{path}.type", f"must not be empty for {where}")
    if type_ and type_ not in _TYPES:
        yield supported(f"{path}.type", type_, _TYPES)
    if type_ and schema.get("x-kubernetes-int-or-string"):
        yield _invalid(f"{path}.type", type_, "must be empty if x-kubernetes-int-or-string is true")
    if schema.get("uniqueItems"):
        message = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield _forbidden(f"{path}.uniqueItems", message)
    if schema.get("properties") and schema.get("additionalProperties") not in (None, False):
        yield _forbidden(f"{path}.additionalProperties", "additionalProperties and properties are mutual exclusive")
    if type_ == "array" and not isinstance(schema.get("items"), dict):
        yield _required(f"{path}.items", "must be specified")
    pattern = schema.get("pattern")
    if pattern is not None:
        yield from _pattern(pattern, f"{path}.pattern")
    yield from _lists(schema, path)
    if schema.get("default") is not None:
        yield from _default(schema, f"{path}.default")
    for junctor in _JUNCTORS:
        for position, branch in enumerate(schema.get(junctor) or ()):
            yield from _value_rules(
                branch, f"{path}.{junctor}[{position}]", bool(schema.get("x-kubernetes-int-or-string"))
            )
    if isinstance(schema.get("not"), dict):
        yield from _value_rules(schema["not"], f"{path}.not", False)
    for name, child in (schema.get("properties") or {}).items():
        if where == "at the root" and name in ("apiVersion", "kind", "metadata"):
            continue
        yield from _structural(child, f"{path}.properties[{name}]", "specified object fields")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from _structural(
            schema["additionalProperties"], f"{path}.additionalProperties", "specified object fields"
        )
    if isinstance(schema.get("items"), dict):
        yield from _structural(schema["items"], f"{path}.items", "specified array items")


def _default(schema: Object, path: str) -> Iterator[FieldError]:
    """A default has to pass the schema that it stands in, as it is, and the rules there."""
    node, value = Compiler().compile(schema), schema["default"]
    # The words are about the value alone, the place says where it stands.
    wrong = [
        msgspec.structs.replace(one, path=join(path, one.path) if one.path[:1] not in ("", "[") else path + one.path)
        for one in validate(node, value, None, "")
    ]
    rules = Rules(node, CelEngine())
    # Rules judge it as a value that stays, and then as one that comes.
    yield from wrong or rules.check(value, copy.deepcopy(value), path) or rules.check(value, None, path)


def _pattern(pattern: str, path: str) -> Iterator[FieldError]:
    try:
        compile_pattern(pattern)
    except ValueError as error:
        yield _invalid(path, pattern, f"must be a valid regular expression, but isn't: {error}")


def _value_rules(schema: Object, path: str, int_or_string: bool) -> Iterator[FieldError]:
    """Inside allOf and its like only values are judged; a structure is said once, outside."""
    if schema.get("type") and not (int_or_string and schema["type"] in ("integer", "string")):
        yield _forbidden(f"{path}.type", "must be empty to be structural")
    for field in ("default", "nullable", "description"):
        if schema.get(field):
            yield _forbidden(f"{path}.{field}", "must be undefined to be structural")
    if schema.get(crdrules.RULES):
        yield _forbidden(f"{path}.{crdrules.RULES}", "must be empty to be structural")
    for name, child in (schema.get("properties") or {}).items():
        yield from _value_rules(child, f"{path}.properties[{name}]", False)
    for junctor in _JUNCTORS:
        for position, branch in enumerate(schema.get(junctor) or ()):
            yield from _value_rules(branch, f"{path}.{junctor}[{position}]", int_or_string)


def _lists(schema: Object, path: str) -> Iterator[FieldError]:
    kind, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys") or ()
    if kind not in (None, "atomic", "set", "map"):
        yield supported(f"{path}.x-kubernetes-list-type", kind, ("atomic", "map", "set"))
    if kind == "map" and not keys:
        yield _required(f"{path}.x-kubernetes-list-map-keys", "must not be empty if x-kubernetes-list-type is map")
    items = schema.get("items") if isinstance(schema.get("items"), dict) else {}
    assert isinstance(items, dict)
    for position, key in enumerate(keys if kind == "map" else ()):
        declared = (items.get("properties") or {}).get(key)
        if declared is None:
            message = "entries must all be names of item properties"
            yield _invalid(f"{path}.x-kubernetes-list-map-keys[{position}]", key, message)
        elif key not in (items.get("required") or ()) and "default" not in declared:
            message = (
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"
            )
            yield _required(f"{path}.items.properties[{key}].default", message)
