"""A Kubernetes API server small enough to read, with faults that a real one has only on bad days.

It stores what it is given and knows no schema. Apply merges dictionaries and replaces lists, which is what
the tests need of it; the embedded server is the judge of real server-side apply.
"""

from __future__ import annotations

import asyncio
import bisect
import copy
import time
import uuid
from collections.abc import Mapping
from typing import Any

import orjson
from aiohttp import web

from modelplane.api.meta import GVK, Object
from modelplane.kube import Client, Kubeconfig
from modelplane.kube.resources import KNOWN, plural

Store = dict[tuple[str, str, str], Object]


class FakeApi:
    """``async with FakeApi() as api``; ``api.client()`` talks to it. Faults are attributes."""

    def __init__(self, *, watch_list: bool = True) -> None:
        self.objects: Store = {}
        self.version = 1
        self.oldest = 0
        self.history: list[tuple[int, str, Object]] = []
        self.watch_list = watch_list
        self.ignores_watch_list = False
        self.requests: list[tuple[str, str]] = []
        self.hang = False
        self.refuse: int | None = None
        self.refuse_writes: dict[str, int] = {}
        self.refusal = ""
        """The words of `refuse_writes`, where they matter."""
        self.refuse_reads: dict[str, int] = {}
        self.unserved: set[str] = set()
        """API groups that this server has never heard of."""
        self._changed = asyncio.Condition()
        self._open: set[asyncio.Task[None]] = set()
        self._runner: web.AppRunner | None = None
        self.port = 0
        self.token = "secret"
        self.scopes = {(r.gvk.group, r.gvk.version, r.plural): r for r in KNOWN.values()}
        self.extra: dict[GVK, bool] = {}

    def serve_kind(self, gvk: GVK, *, namespaced: bool = True) -> None:
        self.extra[gvk] = namespaced

    async def __aenter__(self) -> FakeApi:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, shutdown_timeout=0, handler_cancellation=True)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True)
        await site.start()
        assert site._server is not None
        self.port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]

    async def stop(self) -> None:
        """As SIGKILL would: connections break at once."""
        if self._runner is not None:
            runner, self._runner = self._runner, None
            for task in list(self._open):
                task.cancel()
            await runner.cleanup()

    def kubeconfig_text(self) -> str:
        return orjson.dumps(
            {
                "current-context": "c",
                "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{self.port}"}}],
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "users": [{"name": "u", "user": {"token": self.token}}],
            }
        ).decode()

    def client(self, **options: Any) -> Client:
        return Client(Kubeconfig.parse(self.kubeconfig_text()), **options)

    # --- direct access for tests -----------------------------------------------------------------------------------

    def find(self, kind: str, name: str, namespace: str = "") -> Object | None:
        for (_, ns, object_name), obj in self.objects.items():
            if obj["kind"] == kind and ns == namespace and object_name == name:
                return obj
        return None

    def all(self, kind: str) -> list[Object]:
        return [obj for obj in self.objects.values() if obj["kind"] == kind]

    async def put(self, obj: Object) -> Object:
        """Create or replace, status included."""
        gvk = GVK.of(obj)
        key = (
            f"{gvk.group}/{gvk.version}/{self._plural(gvk)}",
            obj["metadata"].get("namespace", ""),
            obj["metadata"]["name"],
        )
        return await self._write(key, copy.deepcopy(obj))

    async def expire(self) -> None:
        """Forget history, so that a resume from before now is Gone."""
        async with self._changed:
            self.version += 1
            self.oldest = self.version
            self.history.clear()

    async def disconnect(self) -> None:
        """Break every open request, as a load balancer does."""
        for task in list(self._open):
            task.cancel()

    def _plural(self, gvk: GVK) -> str:
        return KNOWN[gvk].plural if gvk in KNOWN else plural(gvk.kind)

    async def _write(self, key: tuple[str, str, str], obj: Object) -> Object:
        old = self.objects.get(key)
        metadata = obj["metadata"]
        if old is None:
            metadata.setdefault("uid", str(uuid.uuid4()))
            metadata.setdefault("creationTimestamp", "2026-11-29T12:00:00Z")
            metadata["generation"] = 1
        else:
            metadata["uid"] = old["metadata"]["uid"]
            metadata["creationTimestamp"] = old["metadata"]["creationTimestamp"]
            moved = {k: v for k, v in obj.items() if k not in ("metadata", "status")} != {
                k: v for k, v in old.items() if k not in ("metadata", "status")
            }
            metadata["generation"] = old["metadata"]["generation"] + (1 if moved else 0)
            metadata["resourceVersion"] = old["metadata"]["resourceVersion"]
            if obj == old:
                return old
        if old is not None and metadata.get("deletionTimestamp") and not metadata.get("finalizers"):
            return await self._drop(key, obj)
        async with self._changed:
            self.version += 1
            metadata["resourceVersion"] = str(self.version)
            self.objects[key] = obj
            self.history.append((self.version, "MODIFIED" if old else "ADDED", obj))
            self._changed.notify_all()
        return obj

    async def _drop(self, key: tuple[str, str, str], obj: Object) -> Object:
        async with self._changed:
            self.version += 1
            gone = copy.deepcopy(obj)
            gone["metadata"]["resourceVersion"] = str(self.version)
            self.objects.pop(key, None)
            self.history.append((self.version, "DELETED", gone))
            self._changed.notify_all()
        return gone

    # --- HTTP ------------------------------------------------------------------------------------------------------

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            if self.hang:
                await asyncio.Event().wait()
            self.requests.append((request.method, request.path))
            if self.refuse:
                return _status(self.refuse, "refused by the test")
            if request.headers.get("Authorization") != f"Bearer {self.token}":
                return _status(401, "Unauthorized")
            return await self._route(request)
        finally:
            self._open.discard(task)

    async def _route(self, request: web.Request) -> web.StreamResponse:
        parts = request.path.strip("/").split("/")
        if parts == ["version"]:
            return web.json_response({"gitVersion": "v1.36.0"})
        group, parts = ("", parts[1:]) if parts[0] == "api" else (parts[1], parts[2:])
        version, parts = parts[0], parts[1:]
        if group in self.unserved:
            return web.Response(status=404, text="404 page not found\n")
        if not parts:
            served = [
                {"name": self._plural(gvk), "kind": gvk.kind, "namespaced": scoped}
                for gvk, scoped in self.extra.items()
                if (gvk.group, gvk.version) == (group, version)
            ]
            return web.json_response({"resources": served}) if served else _status(404, "no such group")
        namespace = ""
        if parts[0] == "namespaces" and len(parts) > 2:
            namespace, parts = parts[1], parts[2:]
        resource = f"{group}/{version}/{parts[0]}"
        name = parts[1] if len(parts) > 1 else ""
        sub = parts[2] if len(parts) > 2 else ""
        if request.method != "GET" and parts[0] in self.refuse_writes and request.method != "DELETE":
            return _status(self.refuse_writes[parts[0]], self.refusal or f"{parts[0]} are refused by the test")
        if request.method == "GET" and parts[0] in self.refuse_reads:
            return _status(self.refuse_reads[parts[0]], f"{parts[0]} are refused by the test")
        if request.method == "GET" and not name:
            if request.query.get("watch") == "true":
                return await self._watch(request, resource, namespace)
            items = [
                copy.deepcopy(o) for k, o in self.objects.items() if self._selected(request, resource, namespace, k, o)
            ]
            for item in items:
                item.pop("apiVersion")
                item.pop("kind")
            return web.json_response({"items": items, "metadata": {"resourceVersion": str(self.version)}})
        body = orjson.loads(data) if (data := await request.read()) else {}
        key = (resource, namespace, name or body.get("metadata", {}).get("name", ""))
        return await self._object(request, key, sub, body)

    async def _object(self, request: web.Request, key: tuple[str, str, str], sub: str, body: Any) -> web.StreamResponse:
        old = self.objects.get(key)
        if request.method == "POST":
            if old is not None:
                return _status(409, f"{key[2]} already exists", "AlreadyExists")
            body.pop("status", None)
            return web.json_response(await self._write(key, body), status=201)
        if old is None:
            if request.headers.get("Content-Type") == "application/apply-patch+yaml" and not sub:
                body.pop("status", None)
                return web.json_response(await self._write(key, body), status=201)
            return _status(404, f"{key[2]} not found", "NotFound")
        if request.method == "GET":
            return web.json_response(old)
        if request.method == "DELETE":
            uid = (body.get("preconditions") or {}).get("uid")
            if uid and uid != old["metadata"]["uid"]:
                return _status(409, "the UID differs", "Conflict")
            foreground = ["foregroundDeletion"] if body.get("propagationPolicy") == "Foreground" else []
            if old["metadata"].get("finalizers") or foreground:
                new = copy.deepcopy(old)
                new["metadata"]["finalizers"] = [*(old["metadata"].get("finalizers") or ()), *foreground]
                new["metadata"].setdefault("deletionTimestamp", time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
                return web.json_response(await self._write(key, new))
            return web.json_response(await self._drop(key, old))
        if request.method == "PUT":
            new = body
        else:
            new = _merge(copy.deepcopy(old), body, body.get("metadata", {}).get("resourceVersion"))
        wanted = body.get("metadata", {}).get("resourceVersion")
        if wanted and wanted != old["metadata"]["resourceVersion"]:
            return _status(409, "the object has been modified", "Conflict")
        if sub == "status":
            new = {**copy.deepcopy(old), "status": new.get("status", {})}
        elif "status" in old:
            new["status"] = old["status"]
        else:
            new.pop("status", None)
        return web.json_response(await self._write(key, new))

    def _selected(
        self, request: web.Request, resource: str, namespace: str, key: tuple[str, str, str], obj: Object
    ) -> bool:
        if key[0] != resource or (namespace and key[1] != namespace):
            return False
        labels = obj["metadata"].get("labels") or {}
        wanted = request.query.get("labelSelector")
        for term in filter(None, (wanted or "").split(",")):
            name, equals, value = term.partition("=")
            if name not in labels or (equals and labels[name] != value):
                return False
        fields = request.query.get("fieldSelector")
        return not fields or fields == f"metadata.name={key[2]}"

    def _since(self, version: int) -> list[tuple[int, str, Object]]:
        """What happened after a version."""
        return self.history[bisect.bisect_right(self.history, version, key=lambda entry: entry[0]) :]

    async def _watch(self, request: web.Request, resource: str, namespace: str) -> web.StreamResponse:
        initial = request.query.get("sendInitialEvents") == "true" and not self.ignores_watch_list
        if initial and not self.watch_list:
            return _status(422, "sendInitialEvents is forbidden unless WatchList is enabled", "Invalid")
        since = int(request.query.get("resourceVersion") or 0)
        if not initial and since < self.oldest:
            return _status(410, "too old resource version", "Expired")
        response = web.StreamResponse()
        await response.prepare(request)

        async def send(kind: str, obj: Object) -> None:
            await response.write(orjson.dumps({"type": kind, "object": obj}) + b"\n")

        if initial:
            since = self.version
            for key, obj in list(self.objects.items()):
                if self._selected(request, resource, namespace, key, obj):
                    await send("ADDED", obj)
            mark = {"resourceVersion": str(since), "annotations": {"k8s.io/initial-events-end": "true"}}
            await send("BOOKMARK", {"metadata": mark})
        while True:
            if self.hang:
                await asyncio.Event().wait()
            for number, kind, obj in self._since(since):
                since = number
                gvk = GVK.of(obj)
                metadata = obj["metadata"]
                key = (
                    f"{gvk.group}/{gvk.version}/{self._plural(gvk)}",
                    metadata.get("namespace", ""),
                    metadata["name"],
                )
                if self._selected(request, resource, namespace, key, obj):
                    await send(kind, obj)
            async with self._changed:
                if self.version == since:
                    await self._changed.wait()
                elif not self._since(since):
                    since = self.version


def _merge(base: Any, patch: Mapping[str, Any], _: object) -> Any:
    for key, value in patch.items():
        if value is None:
            base.pop(key, None)
        elif isinstance(value, dict):
            base[key] = _merge(base.get(key) if isinstance(base.get(key), dict) else {}, value, None)
        else:
            base[key] = value
    return base


def _status(code: int, message: str, reason: str = "") -> web.Response:
    return web.json_response({"kind": "Status", "code": code, "message": message, "reason": reason}, status=code)
