"""The operations of a kind, with what clients look at and no more, in the words of OpenAPI v3."""

from __future__ import annotations

from typing import Final

from modelplane.api.meta import GVK, Object
from modelplane.server.openapi.kinds import STATUS, component, told
from modelplane.server.resource import ResourceType, Subresource

PREFIX: Final = "#/components/schemas/"
_MERGES: Final = ("application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml")
_METHODS: Final = (("get", "get"), ("update", "put"), ("patch", "patch"), ("create", "post"), ("delete", "delete"))
_CONNECTED: Final = ("attach", "exec", "portforward", "proxy")
_STRATEGIC: Final = "application/strategic-merge-patch+json"
_PARAMETERS: Final = {
    "dryRun": "When present, indicates that modifications should not be persisted. Valid values are: All",
    "fieldManager": "The name of the actor that makes the changes.",
    "fieldValidation": "What to do with unknown and duplicate fields of the body: Ignore, Warn or Strict.",
}
_FORCE: Final = 'Force is going to "force" Apply requests: fields of other managers are taken over.'


def parameter(name: str) -> Object:
    """One parameter of a query, by its name."""
    if name == "force":
        return {"in": "query", "name": name, "description": _FORCE, "schema": {"type": "boolean", "uniqueItems": True}}
    schema = {"type": "string", "uniqueItems": True}
    return {"in": "query", "name": name, "description": _PARAMETERS[name], "schema": schema}


def paths(type_: ResourceType, name: str) -> Object:
    """The paths of a kind whose schema has this name."""
    root = type_.resource.path("{namespace}" if type_.namespaced else None)
    collection: Object = {}
    for verb, method in (("list", "get"), ("create", "post"), ("deletecollection", "delete")):
        if verb in type_.verbs:
            body = f"{name}List" if verb == "list" else name if verb == "create" else STATUS
            collection[method] = _operation(type_.gvk, verb, body, custom=type_.custom)
    paths: Object = {root: _item(collection, type_.namespaced, named=False)}
    if not type_.stored:
        return paths
    if type_.namespaced and "list" in type_.verbs:
        paths[type_.resource.path()] = _item({"get": collection["get"]}, False, named=False)  # of all namespaces
    deleted = name if type_.returns_deleted else STATUS
    single = {
        method: _operation(type_.gvk, verb, deleted if verb == "delete" else name, custom=type_.custom)
        for verb, method in (("get", "get"), ("update", "put"), ("patch", "patch"), ("delete", "delete"))
        if verb in type_.verbs
    }
    paths[f"{root}/{{name}}"] = _item(single, type_.namespaced, named=True)
    for below_name, below in type_.subresources.items():
        operations = {
            method: _below(type_, below_name, below, verb) for verb, method in _METHODS if verb in below.verbs
        }
        if below_name == "proxy":
            operations |= dict.fromkeys(("head", "options"), operations["get"])
        paths[f"{root}/{{name}}/{below_name}"] = _item(operations, type_.namespaced, named=True)
    return paths


def _below(type_: ResourceType, name: str, below: Subresource, verb: str) -> Object:
    if name in _CONNECTED:
        return {
            "responses": {"200": _answered({"type": "string"})},
            "x-kubernetes-action": "connect",
            "x-kubernetes-group-version-kind": told(below.gvk),
        }
    gvk = type_.gvk if type_.custom else below.gvk
    made = _operation(gvk, verb, component(below.gvk), custom=type_.custom)
    return {**made, "responses": {"200": _answered({"type": "string"})}} if name == "log" else made


def _answered(schema: Object) -> Object:
    return {"description": "OK", "content": {"application/json": {"schema": schema}}}


def _item(operations: Object, namespaced: bool, *, named: bool) -> Object:
    parameters = [
        {"in": "path", "name": name, "required": True, "schema": {"type": "string", "uniqueItems": True}}
        for name in ([*(["name"] if named else []), *(["namespace"] if namespaced else [])])
    ]
    return {**operations, **({"parameters": parameters} if parameters else {})}


def _operation(gvk: GVK, verb: str, schema: str, *, custom: bool) -> Object:
    answer = {"$ref": PREFIX + schema}
    made: Object = {
        "responses": {"200": _answered(answer)},
        "x-kubernetes-action": {"create": "post", "update": "put"}.get(verb, verb),
        "x-kubernetes-group-version-kind": told(gvk),
    }
    if verb in ("create", "update", "patch"):
        names = (*_PARAMETERS, *(("force",) if verb == "patch" else ()))
        made["parameters"] = [parameter(name) for name in names]
        types = (*_MERGES, *(() if custom else (_STRATEGIC,))) if verb == "patch" else ("application/json",)
        made["requestBody"] = {
            "content": {type_: {"schema": answer if verb != "patch" else {"type": "object"}} for type_ in types}
        }
    return made
