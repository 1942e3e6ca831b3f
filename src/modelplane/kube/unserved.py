"""A kind that a server does not serve, in one sentence: which kind, of which group and version, and what brings it.

A server's own words for that are `404 page not found`. A kind in the table of `resources` is asked for without discovery, so that
answer is met on the request itself; one outside the table is missed by discovery. Both are said here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from modelplane.api.meta import AGENT_GROUP, GROUP, GVK, INFRASTRUCTURE_GROUP, Resource
from modelplane.errors import ApiError, NotFound
from modelplane.kube.resources import KNOWN

_PATH: Final = re.compile(
    r"/(?:api|apis/(?P<group>[^/]+))/(?P<version>[^/]+)/(?:namespaces/[^/]+/)?(?P<plural>[^/]+)(?:/[^/]+)?"
)
_NO_RESOURCE: Final = "the server could not find the requested resource"
_OURS: Final = (
    "install Modelplane's definitions: kubectl apply --server-side -f src/modelplane/api/crds, or charts/modelplane"
)
_REMEDIES: Final = {
    "": "is this the address of a Kubernetes API server?",
    GROUP: _OURS,
    INFRASTRUCTURE_GROUP: _OURS,
    AGENT_GROUP: _OURS,
    "gateway.networking.k8s.io": (
        "install the CRDs of Gateway API: kubectl apply --server-side -f the standard-install.yaml of "
        "https://github.com/kubernetes-sigs/gateway-api/releases, 1.4 or later"
    ),
    "inference.networking.k8s.io": (
        "install the CRDs of the Gateway API Inference Extension: kubectl apply --server-side -f the manifests.yaml of "
        "https://github.com/kubernetes-sigs/gateway-api-inference-extension/releases"
    ),
    "resource.k8s.io": "it needs Kubernetes 1.34 or later, which has Dynamic Resource Allocation",
    "metallb.io": "install its CRD, which the chart metallb brings",
    "gateway.envoyproxy.io": "install its CRD, which the chart of Envoy Gateway brings",
    "leaderworkerset.x-k8s.io": "install its CRD, which the chart of LeaderWorkerSet brings",
}


def sentence(server: str, kind: GVK) -> str:
    """That a server lacks a kind, and what to do about it."""
    return f"{server} does not serve {kind.kind} of {kind.api_version}; {_REMEDIES.get(kind.group, 'install its CRD')}"


def unserved(error: ApiError, server: str, path: str, found: Iterable[Resource]) -> NotFound | None:
    """What a failed answer means where it is the kind that is missing, not the object. ``found`` are kinds from discovery."""
    if error.code != 404 or (error.reason and not str(error).startswith(_NO_RESOURCE)):
        return None
    match = _PATH.fullmatch(path)
    if match is None:
        return None
    group, version, plural = match["group"] or "", match["version"], match["plural"]
    kinds = (
        one.gvk
        for one in (*KNOWN.values(), *found)
        if (one.gvk.group, one.gvk.version, one.plural) == (group, version, plural)
    )
    return NotFound(sentence(server, next(kinds, GVK(group, version, plural))), code=404)
