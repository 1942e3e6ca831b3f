"""What the server says about itself: versions, groups, resources, health.

The documents are made when they are asked for and kept until the set of kinds changes.
"""

from __future__ import annotations

import base64
import hashlib
import platform
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from modelplane.api.meta import Object
from modelplane.server.call import Answer
from modelplane.server.objects import encode
from modelplane.server.registry import Registry
from modelplane.server.request import JSON
from modelplane.server.resource import ResourceType
from modelplane.server.tags import holds, quoted, unchanged

AGGREGATED: Final = "application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
VERSION: Final = "1.37.0"
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
"""What Go calls them."""
_CUSTOM_VERBS: Final = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
_PREFERRED: Final = ("", "apps", "autoscaling", "batch")


def version() -> Object:
    """The answer of /version: the Kubernetes release whose behaviour this server follows."""
    major, minor, _ = VERSION.split(".")
    return {
        "major": major,
        "minor": minor,
        "gitVersion": f"v{VERSION}+modelplane",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": f"python{platform.python_version()}",
        "platform": f"{platform.system().lower()}/{_ARCHITECTURES.get(platform.machine(), platform.machine())}",
    }


class Discovery:
    """Discovery documents of one registry."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._generation = 0
        self._kept: dict[str, bytes] = {}

    def answer(self, path: str, headers: Mapping[str, str]) -> Answer | None:
        """A discovery document, or None when the path is not one (or a group that is not served)."""
        parts = path.strip("/").split("/")
        if parts in (["api"], ["apis"]) and (found := _aggregated_version(headers.get("accept", ""))):
            kind = AGGREGATED.format(version=found)
            core = parts == ["api"]
            body = self._keep(f"{path} {found}", lambda: self._aggregated(core, found))
            digest, told = hashlib.sha256(body).hexdigest()[:32].upper(), {"Vary": "Accept"}
            if holds(headers, digest):
                return unchanged(digest, told)
            return Answer(200, body, kind, {**told, "ETag": quoted(digest)})
        match parts:
            case ["api"]:
                return Answer(200, self._keep(path, self._api_versions))
            case ["apis"]:
                return Answer(200, self._keep(path, self._group_list))
            case ["api", "v1"]:
                return Answer(200, self._keep(path, lambda: self._resource_list("", "v1")))
            case ["apis", group] if self._registry.has_group(group):
                document: Object = {"kind": "APIGroup", "apiVersion": "v1"}
                return Answer(200, self._keep(path, lambda: {**document, **self._group(group)}))
            case ["apis", group, version_] if self._registry.has_group(group, version_):
                return Answer(200, self._keep(path, lambda: self._resource_list(group, version_)))
        return None

    def paths(self) -> list[str]:
        """Where groups and versions are, for the page of all paths."""
        found = ["/api", "/api/v1", "/apis"]
        for group in self._groups():
            found += [f"/apis/{group}", *(f"/apis/{group}/{version}" for version in self._versions(group))]
        return found

    def _keep(self, name: str, make: Callable[[], Object]) -> bytes:
        if self._generation != self._registry.generation:
            self._kept.clear()
            self._generation = self._registry.generation
        if name not in self._kept:
            self._kept[name] = encode(make())
        return self._kept[name]

    def _api_versions(self) -> Object:
        return {
            "kind": "APIVersions",
            "versions": ["v1"],
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": ""}],
        }

    def _groups(self) -> list[str]:
        names = {type_.gvk.group for type_ in self._registry.types()} - {""}
        builtin = {t.gvk.group for t in self._registry.types() if not t.custom}
        return sorted(names, key=lambda name: (name not in builtin, name not in _PREFERRED, name))

    def _versions(self, group: str) -> list[str]:
        found = {type_.gvk.version for type_ in self._registry.types() if type_.gvk.group == group}
        return sorted(found, key=_version_order)

    def _group_list(self) -> Object:
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [self._group(name) for name in self._groups()]}

    def _group(self, group: str) -> Object:
        versions = [{"groupVersion": f"{group}/{v}", "version": v} for v in self._versions(group)]
        return {"name": group, "versions": versions, "preferredVersion": versions[0]}

    def _of(self, group: str, version_: str) -> list[ResourceType]:
        found = [t for t in self._registry.types() if (t.gvk.group, t.gvk.version) == (group, version_)]
        return sorted(found, key=lambda t: t.plural)

    def _resource_list(self, group: str, version_: str) -> Object:
        resources: list[Object] = []
        for type_ in self._of(group, version_):
            stored = self._registry.storage_version(type_)
            resources.append(_resource(type_, stored))
            for name, below in sorted(type_.subresources.items()):
                entry: Object = {
                    "name": f"{type_.plural}/{name}",
                    "singularName": "",
                    "namespaced": type_.namespaced,
                }
                if below.gvk.group != group or below.gvk.version != version_:
                    entry |= {"group": below.gvk.group, "version": below.gvk.version}
                resources.append(entry | {"kind": below.gvk.kind, "verbs": sorted(below.verbs)})
        return {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": f"{group}/{version_}" if group else version_,
            "resources": resources,
        }

    def _aggregated(self, core: bool, version_: str) -> Object:
        items = [self._aggregated_group("" if core else group) for group in ([""] if core else self._groups())]
        return {
            "kind": "APIGroupDiscoveryList",
            "apiVersion": f"apidiscovery.k8s.io/{version_}",
            "metadata": {},
            "items": items,
        }

    def _aggregated_group(self, group: str) -> Object:
        versions = [
            {"version": v, "resources": [_aggregated_resource(t) for t in self._of(group, v)], "freshness": "Current"}
            for v in self._versions(group)
        ]
        metadata: Object = {"creationTimestamp": None}
        if group:
            metadata["name"] = group
        return {"metadata": metadata, "versions": versions}


def _resource(type_: ResourceType, stored: str) -> Object:
    found: Object = {
        "name": type_.plural,
        "singularName": type_.singular,
        "namespaced": type_.namespaced,
        "kind": type_.gvk.kind,
        "verbs": list(_CUSTOM_VERBS) if type_.custom else sorted(type_.verbs),
    }
    if type_.short_names:
        found["shortNames"] = list(type_.short_names)
    if type_.categories:
        found["categories"] = list(type_.categories)
    if type_.stored:
        of = f"{stored if '/' in stored else '/' + stored}/{type_.gvk.kind}"
        digest = hashlib.sha256(of.encode()).digest()[:8]
        found["storageVersionHash"] = base64.b64encode(digest).decode()
    return found


def _aggregated_resource(type_: ResourceType) -> Object:
    found: Object = {
        "resource": type_.plural,
        "responseKind": _kind(type_),
        "scope": "Namespaced" if type_.namespaced else "Cluster",
        "singularResource": type_.singular,
        "verbs": sorted(type_.verbs),
    }
    if type_.short_names:
        found["shortNames"] = list(type_.short_names)
    if type_.categories:
        found["categories"] = list(type_.categories)
    if type_.subresources:
        found["subresources"] = [
            {
                "subresource": name,
                "responseKind": {"group": s.gvk.group, "version": s.gvk.version, "kind": s.gvk.kind},
                "verbs": sorted(s.verbs),
            }
            for name, s in sorted(type_.subresources.items())
        ]
    return found


def _kind(type_: ResourceType) -> Object:
    return {"group": type_.gvk.group, "version": type_.gvk.version, "kind": type_.gvk.kind}


def _aggregated_version(accept: str) -> str:
    """v2 or v2beta1 when the client prefers the aggregated form to a plain one."""
    for option in accept.split(","):
        kind, _, rest = option.strip().partition(";")
        parameters = dict(_pairs(rest))
        if kind.strip() == JSON and parameters.get("as") == "APIGroupDiscoveryList":
            if parameters.get("v") in ("v2", "v2beta1"):
                return parameters["v"]
        elif kind.strip() in (JSON, "*/*"):
            return ""
    return ""


def _pairs(text: str) -> Iterable[tuple[str, str]]:
    for part in text.split(";"):
        key, _, value = part.strip().partition("=")
        if key:
            yield key, value


def _version_order(version_: str) -> tuple[int, int, int, str]:
    """Newest stable first, then beta, then alpha, as Kubernetes orders versions."""
    found = re.fullmatch(r"v(\d+)(?:(alpha|beta)(\d+))?", version_)
    if found is None:
        return (3, 0, 0, version_)
    major, level, minor = found.groups()
    return ({None: 0, "beta": 1, "alpha": 2}[level], -int(major), -int(minor or 0), version_)
