"""From a located request to the function that answers it: paths without a kind, then verbs of a kind."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from modelplane.errors import Refusal
from modelplane.server import (
    access,
    authz,
    deleting,
    healths,
    patching,
    reading,
    refusals,
    subresources,
    watching,
    writing,
)
from modelplane.server.apidocs import ApiDocs
from modelplane.server.behaviours import behaviour_of
from modelplane.server.call import Answer, Backend, Call, Stream, rendered, storage
from modelplane.server.discovery import Discovery, version
from modelplane.server.objects import encode
from modelplane.server.request import Media, Request, Target, negotiate
from modelplane.server.resource import ResourceType

_WRITES: Final = frozenset({"POST", "PUT", "PATCH"})
EVERYWHERE: Final = ("list", "watch")


class Router:
    """Answers requests of known users."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._discovery = Discovery(backend.registry)
        self._docs = ApiDocs(backend.registry)

    async def answer(self, request: Request) -> Answer | Stream:
        """Raises Refusal for everything that goes wrong on purpose."""
        target = request.target
        if not self._backend.authorizer.permits(request.user, target):
            raise authz.refusal(authz.Attributes.of(request.user, target))
        if not target.resource:
            return await self._path(request)
        type_ = self._backend.registry.find(target.group, target.version, target.resource)
        if type_ is None:
            if self._backend.registry.is_builtin_group(target.group):
                raise refusals.no_such_resource()
            return not_found_page()
        return await self._resource(type_, request)

    async def _path(self, request: Request) -> Answer:
        health = healths.answer(request.target.path, request.query)
        if health is not None:
            return health
        path = request.target.path.rstrip("/") or "/"
        if request.method not in ("GET", "HEAD"):
            if path == "/version" or self._discovery.answer(path, {}):
                raise refusals.method_not_allowed()
            return not_found_page()
        if path == "/version":
            return Answer(200, encode(version()))
        found = self._discovery.answer(path, request.headers)
        found = found or await self._docs.answer(request.target.path, request.query, request.headers)
        if found is None and path == "/":
            roots = [*self._discovery.paths(), *healths.paths(), "/openapi/v2", "/openapi/v3", "/version"]
            return Answer(200, encode({"paths": sorted(roots)}))
        if found is None and self._within(path):
            raise refusals.no_such_resource()
        return found or not_found_page()

    def _within(self, path: str) -> bool:
        """Whether a path is below what a built-in group has."""
        match path.split("/"):
            case ["", "api", _, *_]:
                return True
            case ["", "apis", group, *_]:
                return self._backend.registry.is_builtin_group(group)
        return False

    async def _resource(self, type_: ResourceType, request: Request) -> Answer | Stream:
        target = request.target
        if misplaced(type_, target):
            if type_.custom:
                return not_found_page()
            raise refusals.no_such_resource()
        if type_.namespaced and type_.stored and not target.namespace and target.verb not in EVERYWHERE:
            raise refusals.not_supported(type_, target.verb)
        if type_.deprecation:
            request.warn(type_.deprecation)
        name = target.name if target.named else ""
        call = Call(
            backend=self._backend,
            type=type_,
            request=request,
            media=_media(request),
            namespace=target.namespace if type_.namespaced else "",
            name=name,
            subresource=target.subresource,
        )
        if not type_.stored:
            return await access.review(call)
        if target.subresource:
            return await subresources.answer(call)
        if target.verb == "watch":
            if request.method != "GET":
                raise refusals.method_not_allowed()
            return watching.watch(call)
        if type_.custom and request.method == "POST":
            return await writing.create(call)  # a name in the path does not matter then
        verb = _COLLECTION.get(request.method) if not name else _OBJECT.get(request.method)
        if verb is None or (target.verb == "deletecollection" and target.verb not in type_.verbs):
            raise refusals.not_supported(type_, target.verb)
        if request.method in _WRITES and behaviour_of(storage(type_)).serial:
            async with self._backend.turn:
                return await verb(call)
        return await verb(call)


def misplaced(type_: ResourceType, target: Target) -> bool:
    """Whether a path has a namespace that the kind has not, or lacks the one of an object.

    Of a custom kind nothing but a list and a watch reaches over namespaces; of a built-in one there is such a path, and what
    else is asked of it is refused by its method.
    """
    if target.namespace:
        return not type_.namespaced and type_.gvk.kind != "Namespace"
    if not type_.namespaced or not type_.stored:
        return False
    return target.verb not in EVERYWHERE if type_.custom else target.named and target.verb != "watch"


def _media(request: Request) -> Media:
    return negotiate(request.headers.get("accept", ""))


def not_found_page() -> Answer:
    """What a real API server answers for a path that nobody serves."""
    return Answer(404, b"404 page not found\n", "text/plain; charset=utf-8", {"X-Content-Type-Options": "nosniff"})


async def _get(call: Call) -> Answer:
    return reading.get(call)


async def _list(call: Call) -> Answer:
    return reading.list_(call)


_Verb = Callable[[Call], Awaitable[Answer]]
_COLLECTION: Final[Mapping[str, _Verb]] = {
    "GET": _list,
    "HEAD": _list,
    "POST": writing.create,
    "DELETE": deleting.delete_collection,
}
_OBJECT: Final[Mapping[str, _Verb]] = {
    "GET": _get,
    "HEAD": _get,
    "PUT": writing.update,
    "PATCH": patching.patch,
    "DELETE": deleting.delete,
}


def refused(media: Media, refusal: Refusal) -> Answer:
    """The answer to a request that was refused."""
    headers: dict[str, str] = {}
    if refusal.code == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="kubernetes-master"'
    seconds = (refusal.details or {}).get("retryAfterSeconds")
    if seconds:
        headers["Retry-After"] = str(seconds)
    plain = Media(media.type)
    made = rendered(plain, encode(refusals.status_of(refusal)), refusal.code)
    return Answer(made.code, made.body, made.type, headers)
