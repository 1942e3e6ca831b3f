"""What a pod needs before its containers can be made: allocated claims, and the ConfigMaps and Secrets that it names.

Read from the API when a pod starts, as a kubelet reads only what its own pods name.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from modelplane.api.meta import Key, Object, Resource
from modelplane.errors import NotFound
from modelplane.kube import Client, Informer
from modelplane.local.kinds import CLAIM, CONFIG_MAP, SECRET
from modelplane.local.nodes.classify import claim_names, mounted
from modelplane.local.nodes.environment import Lookup

_KINDS = {"ConfigMap": CONFIG_MAP, "Secret": SECRET}
_WHOLE = (("configMapRef", "ConfigMap"), ("secretRef", "Secret"))
_KEYED = (("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret"))


class Needs:
    """Looks things up for the pods of one runtime; raises ApiError when the API does not answer."""

    def __init__(self, client: Client, claims: Informer) -> None:
        self._client = client
        self._claims = claims

    async def lacking(self, pod: Object) -> tuple[str, str] | None:
        """Reason and message of an event about the first thing that is not there; None when all is."""
        namespace, uid = pod["metadata"]["namespace"], pod["metadata"]["uid"]
        for name, claim_name in claim_names(pod).items():
            claim = self._claims.get(Key(namespace, claim_name)) if claim_name else None
            if not _reserved(claim, uid) and claim_name:
                claim = await self._get(CLAIM, claim_name, namespace)
            if not _reserved(claim, uid):
                text = f'claim "{claim_name or name}" is not allocated and reserved for this pod'
                return "FailedPrepareDynamicResources", f"Failed to prepare dynamic resources: {text}"
        for volume, kind, name, optional in mounted(pod):
            if not optional and await self._get(_KINDS[kind], name, namespace) is None:
                text = f'{kind.lower()} "{name}" not found'
                return "FailedMount", f'MountVolume.SetUp failed for volume "{volume}" : {text}'
        return None

    async def lookup(self, pod: Object, container: Mapping[str, Any]) -> Lookup:
        """The ConfigMaps and Secrets that the container's environment names, read now."""
        wanted = {
            (kind, source[field]["name"])
            for source in container.get("envFrom") or ()
            for field, kind in _WHOLE
            if source.get(field)
        }
        for entry in container.get("env") or ():
            source = entry.get("valueFrom") or {}
            wanted |= {(kind, source[field]["name"]) for field, kind in _KEYED if source.get(field)}
        found: dict[tuple[str, str], Mapping[str, str] | None] = {}
        for kind, name in sorted(wanted):
            obj = await self._get(_KINDS[kind], name, pod["metadata"]["namespace"])
            data = None if obj is None else obj.get("data") or {}
            if data is not None and kind == "Secret":
                data = {key: base64.b64decode(value).decode(errors="replace") for key, value in data.items()}
            found[kind, name] = data
        return lambda kind, name: found[kind, name]

    async def _get(self, resource: Resource, name: str, namespace: str) -> Object | None:
        try:
            return await self._client.get(resource, name, namespace)
        except NotFound:
            return None


def _reserved(claim: Object | None, uid: str) -> bool:
    status = (claim or {}).get("status") or {}
    return bool(status.get("allocation")) and any(user.get("uid") == uid for user in status.get("reservedFor") or ())
