"""The EndpointSlice controller at work: existing slices are reused where they fit, so a change is one write."""

from __future__ import annotations

from modelplane.api.meta import Key, Object
from modelplane.errors import NotFound
from modelplane.kube import Client
from modelplane.local.caches import Caches
from modelplane.local.controllers import pods as podlib
from modelplane.local.controllers import slices
from modelplane.local.kinds import ENDPOINT_SLICE, NODE, POD, SERVICE
from modelplane.local.work import Work


class EndpointSlices:
    """Run it with `run`."""

    def __init__(self, client: Client, caches: Caches) -> None:
        self._client = client
        self._caches = caches
        self._services = caches.of(SERVICE)
        self._pods = caches.of(POD)
        self._slices = caches.of(ENDPOINT_SLICE)
        self._nodes = caches.of(NODE)
        self._written: dict[Key, dict[str, Object]] = {}
        """Slices that we created and the cache may not show yet, by service."""
        self._work: Work[Key] = Work("endpointslice", self._sync)

    async def run(self) -> None:
        await self._caches.synced(SERVICE, POD, ENDPOINT_SLICE, NODE)
        self._services.subscribe(self._service_changed)
        self._pods.subscribe(self._pod_changed)
        self._slices.subscribe(self._slice_changed)
        self._nodes.subscribe(self._node_changed)
        await self._work.run()

    def _service_changed(self, old: Object | None, new: Object | None) -> None:
        service = new or old
        assert service is not None
        self._work.add(Key.of(service))

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        pod = new or old
        assert pod is not None
        for service in self._services.items():
            if service["metadata"]["namespace"] == pod["metadata"]["namespace"] and any(
                each is not None and slices.selects(service, each) for each in (old, new)
            ):
                self._work.add(Key.of(service))

    def _node_changed(self, old: Object | None, new: Object | None) -> None:
        if slices.zone(old) != slices.zone(new):
            for service in self._services.items():
                self._work.add(Key.of(service))

    def _slice_changed(self, old: Object | None, new: Object | None) -> None:
        found = new or old
        assert found is not None
        labels = found["metadata"].get("labels") or {}
        if labels.get(slices.MANAGED_BY) == slices.CONTROLLER:
            key = Key(found["metadata"]["namespace"], labels.get(slices.SERVICE_NAME, ""))
            if old is None or new is None:
                self._written.get(key, {}).pop(found["metadata"]["name"], None)
            self._work.add(key)

    async def _sync(self, key: Key) -> float | None:
        service = self._services.get(key)
        if service is None or service["metadata"].get("deletionTimestamp"):
            self._written.pop(key, None)
            return None
        if not service["spec"].get("selector") or service["spec"].get("type") == "ExternalName":
            return None
        pods = [
            pod
            for pod in self._pods.items()
            if pod["metadata"]["namespace"] == key.namespace and slices.selects(service, pod)
        ]
        have = dict(self._written.get(key, {}))
        for found in self._slices.items():
            labels = found["metadata"].get("labels") or {}
            mine = labels.get(slices.SERVICE_NAME) == key.name and labels.get(slices.MANAGED_BY) == slices.CONTROLLER
            if mine and found["metadata"]["namespace"] == key.namespace:
                have[found["metadata"]["name"]] = found
        zones = {n["metadata"]["name"]: zone for n in self._nodes.items() if (zone := slices.zone(n))}
        await self._reach(key, slices.desired(service, pods, zones), list(have.values()))
        return None

    async def _reach(self, key: Key, wanted: list[Object], have: list[Object]) -> None:
        """Leave what is right, rewrite what differs, create what lacks, delete what is over."""
        lacking = []
        for want in wanted:
            fits = next((h for h in have if slices.same(h, want)), None)
            if fits is None:
                lacking.append(want)
            else:
                have.remove(fits)
        for want in lacking:
            reusable = next((h for h in have if h.get("addressType") == want["addressType"]), None)
            if reusable is not None:
                have.remove(reusable)
                metadata = {**reusable["metadata"], "labels": want["metadata"]["labels"]}
                fresh = await self._client.replace({**want, "metadata": metadata})
                self._slices.accept(fresh)
                if fresh["metadata"]["name"] in self._written.get(key, {}):
                    self._written[key][fresh["metadata"]["name"]] = fresh
            else:
                name = f"{want['metadata']['generateName'][:57]}{podlib.suffix()}"
                made = await self._client.create({**want, "metadata": {**want["metadata"], "name": name}})
                if self._slices.get(Key.of(made)) is None:
                    self._written.setdefault(key, {})[name] = made
        for over in have:
            metadata = over["metadata"]
            try:
                await self._client.delete(ENDPOINT_SLICE, metadata["name"], metadata["namespace"])
            except NotFound:
                self._written.get(key, {}).pop(metadata["name"], None)
