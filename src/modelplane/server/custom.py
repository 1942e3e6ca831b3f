"""Custom kinds: stored CustomResourceDefinitions become served types in the moment that they are written.

A definition that is deleted takes its objects with it first; its finalizer holds it until the last one is gone. The
project's own definitions, and other projects' that our composers write, are installed when the server starts.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from modelplane.api.meta import GVK, Object
from modelplane.errors import ModelplaneError, PermanentError, Refusal
from modelplane.server import deleting, writing
from modelplane.server.bootstrap import internal_call
from modelplane.server.call import Backend, storage, view
from modelplane.server.crd import is_established, resource_types
from modelplane.server.objects import read
from modelplane.server.resource import ResourceType
from modelplane.server.schema.cel import CelEngine
from modelplane.server.store import Change, Event, Key

LOG: Final = logging.getLogger(__name__)
RESOURCE: Final = "customresourcedefinitions.apiextensions.k8s.io"
KIND: Final = GVK("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
CLEANUP: Final = "customresourcecleanup.apiextensions.k8s.io"


class Definitions:
    """Keeps the registry in step with the stored definitions."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._engine = CelEngine()
        self._cleaning: dict[str, asyncio.Task[None]] = {}

    def start(self) -> None:
        """Serve what is stored, and follow every change from now on."""
        for entry in self._backend.store.scan(RESOURCE):
            self._serve(read(entry))
        self._backend.store.listen(RESOURCE, self._changed)

    async def stop(self) -> None:
        for task in self._cleaning.values():
            task.cancel()
        await asyncio.gather(*self._cleaning.values(), return_exceptions=True)

    def _changed(self, event: Event) -> None:
        if event.change is Change.DELETED:
            self._backend.registry.define(event.entry.key.name, ())
        else:
            self._serve(read(event.entry))

    def _serve(self, definition: Object) -> None:
        name = definition["metadata"]["name"]
        try:
            types = resource_types(definition, self._engine) if is_established(definition) else ()
            self._backend.registry.define(name, types)
        except ModelplaneError as error:  # stored by an earlier release with laxer checks
            LOG.error("%s %s is not served: %s", KIND.kind, name, error)
        if definition["metadata"].get("deletionTimestamp") and name not in self._cleaning:
            task = asyncio.get_running_loop().create_task(self._clean(name))
            self._cleaning[name] = task
            task.add_done_callback(lambda _: self._cleaning.pop(name, None))

    async def _clean(self, name: str) -> None:
        """Delete the objects of a definition that goes, wait for the last one, and let the definition go."""
        backend = self._backend
        types = backend.registry.custom(name)
        stored = next((type_ for type_ in types if type_.storage_version), None)
        if stored is not None:
            resource = storage(stored)
            subscription = backend.store.subscribe(resource)
            try:
                while entries := backend.store.scan(resource):
                    subscription.take()
                    for entry in entries:
                        if not read(entry)["metadata"].get("deletionTimestamp"):
                            await self._delete(stored, entry.key)
                    if not backend.store.count(resource):
                        break
                    await subscription.wait()
            finally:
                subscription.close()
        type_ = backend.registry.find_kind(KIND.group, KIND.version, KIND.kind)
        entry_now = backend.store.get(Key(RESOURCE, "", name))
        if type_ is None or entry_now is None:
            return

        def let_go(old: Object) -> Object:
            kept = [f for f in old["metadata"].get("finalizers") or () if f != CLEANUP]
            return {**old, "metadata": {**old["metadata"], "finalizers": kept}}

        with contextlib.suppress(Refusal):  # somebody else let it go
            await writing.modify(internal_call(backend, type_, view(type_, entry_now), "PATCH"), let_go)

    async def _delete(self, type_: ResourceType, key: Key) -> None:
        obj: Object = {"metadata": {"name": key.name, "namespace": key.namespace}}
        with contextlib.suppress(Refusal):  # gone already
            await deleting.remove(internal_call(self._backend, type_, obj, "DELETE"), deleting.DeleteOptions())


def shipped() -> list[Object]:
    """The definitions that come with the project."""
    from importlib import resources

    import msgspec

    bundle = resources.files("modelplane.api").joinpath("bundle/crds.json").read_bytes()
    definitions: list[Object] = msgspec.json.decode(bundle)
    return definitions


def from_files(paths: Sequence[Path]) -> list[Object]:
    """Definitions in YAML files and in folders of them. Raises PermanentError for a file that is not YAML."""
    if not paths:
        return []
    import yaml

    found: list[Object] = []
    for path in paths:
        files = (
            sorted(p for p in path.rglob("*") if p.suffix in (".yaml", ".yml", ".json")) if path.is_dir() else [path]
        )
        for file in files:
            try:
                documents = list(yaml.load_all(file.read_text(), getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
            except yaml.YAMLError as error:
                raise PermanentError(f"{file} is not YAML: {error}") from error
            found += [d for d in documents if isinstance(d, dict) and d.get("kind") == KIND.kind]
    return found


async def install(backend: Backend, definitions: Iterable[Object]) -> None:
    """Create definitions, or bring the stored ones up to date where their spec differs."""
    type_ = backend.registry.find_kind(KIND.group, KIND.version, KIND.kind)
    assert type_ is not None
    waiting = []
    for definition in definitions:
        obj = {
            "apiVersion": KIND.api_version,
            "kind": KIND.kind,
            **{k: v for k, v in definition.items() if k != "status"},
        }
        obj = type_.schema.prune(obj)[0]
        waiting.append(_install_one(backend, type_, obj))
    for outcome in await asyncio.gather(*waiting, return_exceptions=True):
        if isinstance(outcome, Refusal):
            raise PermanentError(f"cannot install a CustomResourceDefinition: {outcome}") from outcome
        if isinstance(outcome, BaseException):
            raise outcome


async def _install_one(backend: Backend, type_: ResourceType, obj: Object) -> None:
    call = internal_call(backend, type_, obj)
    if backend.store.get(Key(RESOURCE, "", obj["metadata"]["name"])) is None:
        await writing.insert(call, obj)
        return
    await writing.modify(call, lambda old: _renewed(old, obj))


def _renewed(old: Object, wanted: Object) -> Object:
    metadata = dict(old["metadata"])
    for name in ("labels", "annotations"):
        if wanted["metadata"].get(name):
            metadata[name] = {**(metadata.get(name) or {}), **wanted["metadata"][name]}
    return {**old, "metadata": metadata, "spec": wanted["spec"]}
