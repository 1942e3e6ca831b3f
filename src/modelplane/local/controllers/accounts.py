"""What every namespace has: the service account `default` and the ConfigMap with the cluster's root certificate."""

from __future__ import annotations

from modelplane.api.meta import Key, Object
from modelplane.errors import AlreadyExists, Forbidden, NotFound
from modelplane.kube import Client
from modelplane.local.caches import Caches
from modelplane.local.kinds import CONFIG_MAP, NAMESPACE, SERVICE_ACCOUNT
from modelplane.local.work import Work

ROOT_CA = "kube-root-ca.crt"
ACCOUNT = "default"
NOTE = "The certificate authority of this cluster's API server, for clients in the cluster."


class ServiceAccounts:
    """Run it with `run`. `ca` is the PEM text of the cluster's root certificate; without it no ConfigMap is published."""

    def __init__(self, client: Client, caches: Caches, ca: str) -> None:
        self._client = client
        self._caches = caches
        self._ca = ca
        self._namespaces = caches.of(NAMESPACE)
        self._accounts = caches.of(SERVICE_ACCOUNT)
        self._maps = caches.of(CONFIG_MAP)
        self._work: Work[Key] = Work("default service account", self._sync)

    async def run(self) -> None:
        await self._caches.synced(NAMESPACE, SERVICE_ACCOUNT, CONFIG_MAP)
        self._namespaces.subscribe(lambda _, new: self._work.add(Key.of(new)) if new else None)
        self._accounts.subscribe(self._lost)
        self._maps.subscribe(self._lost)
        await self._work.run()

    def _lost(self, old: Object | None, new: Object | None) -> None:
        """Somebody removed or changed one of the two; make it again."""
        found = new or old
        assert found is not None
        if old is not None and found["metadata"]["name"] in (ACCOUNT, ROOT_CA):
            self._work.add(Key("", found["metadata"]["namespace"]))

    async def _sync(self, key: Key) -> float | None:
        namespace = self._namespaces.get(key)
        if namespace is None or namespace["metadata"].get("deletionTimestamp"):
            return None
        try:
            await self._account(key.name)
            await self._root_ca(key.name)
        except Forbidden as error:
            # The namespace may have begun to terminate a moment ago; otherwise the identity lacks a right.
            current = self._namespaces.get(key)
            if current is not None and not current["metadata"].get("deletionTimestamp"):
                raise error
        return None

    async def _account(self, namespace: str) -> None:
        if self._accounts.get(Key(namespace, ACCOUNT)) is not None:
            return
        metadata = {"name": ACCOUNT, "namespace": namespace}
        try:
            await self._client.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
        except AlreadyExists:
            return

    async def _root_ca(self, namespace: str) -> None:
        found = self._maps.get(Key(namespace, ROOT_CA))
        data = {"ca.crt": self._ca}
        if not self._ca or (found is not None and found.get("data") == data):
            return
        try:
            if found is not None:
                await self._client.replace({**found, "data": data})
                return
            metadata = {"name": ROOT_CA, "namespace": namespace, "annotations": {"kubernetes.io/description": NOTE}}
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
            await self._client.create(body)
        except (AlreadyExists, NotFound):
            return
