"""A fleet in memory: stores per cluster, a host that answers reads and carries out compositions, and obedient clusters.

It is the smallest host that keeps the contract: reads are answered as declared and nothing else is, an incomplete pass drops no
child, a held pass changes no child, statuses carry generations. Clusters make what they are given healthy when told to.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from modelplane.api.kinds import DEFINITIONS
from modelplane.api.meta import GVK, Condition, Object, is_true
from modelplane.api.schema import root_schema
from modelplane.compose.contract import (
    Absent,
    Answer,
    Cel,
    Chart,
    Child,
    Composition,
    ConditionTrue,
    Found,
    FoundAll,
    Host,
    Observed,
    Pending,
    Read,
    Unavailable,
)
from modelplane.compose.kinds import DEPLOYMENT, GATEWAY, HTTP_ROUTE, MODEL_REPLICA
from modelplane.compose.registry import COMPOSERS
from modelplane.plan.cel import compile_rule

SCHEMAS = {definition.resource.gvk: root_schema(definition) for definition in DEFINITIONS}

Identity = tuple[GVK, str, str]
Store = dict[Identity, Object]


def identity(obj: Object) -> Identity:
    return GVK.of(obj), obj["metadata"].get("namespace") or "", obj["metadata"]["name"]


class FakeWorld:
    """What one pass may look at."""

    def __init__(
        self,
        answers: Mapping[Read, Answer],
        *,
        observed: Mapping[str, Observed] | None = None,
        host: Host | None = None,
        place: Callable[[Any], Any] | None = None,
    ) -> None:
        self._answers = answers
        self.observed: Mapping[str, Observed] = observed or {}
        self.host = host or Host()
        self._place = place

    def answer(self, read: Read) -> Answer:
        return self._answers[read]

    def place(self, request: Any) -> Any:
        assert self._place is not None, "this test gave no planner"
        return self._place(request)


class Fleet:
    """The control cluster is the store None; every other store is a cluster of that name."""

    def __init__(
        self,
        *clusters: str,
        host: Host | None = None,
        place: Callable[[Fleet, Any], Any] | None = None,
        addresses: Mapping[str | None, str] | None = None,
    ) -> None:
        self.stores: dict[str | None, Store] = {None: {}, **{name: {} for name in clusters}}
        self.charts: dict[tuple[Identity, str], Chart] = {}
        self.children: dict[Identity, dict[str, Child]] = {}
        self.last: dict[Identity, Composition] = {}
        self.unavailable: dict[str, Unavailable] = {}
        self.unread: set[GVK] = set()
        self.refused: set[GVK] = set()
        """Kinds that the control cluster refuses to show."""
        self.host = host or Host()
        self.place = place
        self.addresses = addresses or {}
        self.mute: set[str] = set()
        """Replicas that answer no request for their models."""
        self.models: list[str] = ["m"]
        """What replicas name when they are asked; empty when nobody has asked yet."""

    # --- the user's hand

    def apply(self, obj: Object, cluster: str | None = None, owner: Object | None = None) -> Object:
        """Create or change an object; generation counts changes of everything but metadata and status."""
        store, key = self.stores[cluster], identity(obj)
        old = store.get(key)
        new = copy.deepcopy(obj)
        schema = SCHEMAS.get(key[0])
        if schema is not None:
            new = _defaulted(schema, new)
        metadata = new["metadata"]
        if owner is not None:
            reference = {k: owner[k] for k in ("apiVersion", "kind")} | {
                "name": owner["metadata"]["name"],
                "uid": owner["metadata"]["uid"],
                "controller": True,
            }
            metadata["ownerReferences"] = [reference]
        metadata.setdefault("uid", f"uid-{cluster}-{key[2]}-{key[0].kind}")
        if old is not None:
            new.setdefault("status", old.get("status"))
        same = old is not None and _body(old) == _body(new)
        metadata["generation"] = 1 if old is None else old["metadata"]["generation"] + (0 if same else 1)
        if new.get("status") is None:
            new.pop("status", None)
        store[key] = new
        return new

    def get(self, kind: GVK, name: str, namespace: str = "", cluster: str | None = None) -> Object:
        return self.stores[cluster][(kind, namespace, name)]

    def all(self, kind: GVK, cluster: str | None = None) -> list[Object]:
        return [obj for key, obj in sorted(self.stores[cluster].items(), key=lambda i: i[0]) if key[0] == kind]

    def condition(self, obj: Object, type_: str) -> tuple[str, str, str]:
        entry = next(c for c in obj["status"]["conditions"] if c["type"] == type_)
        return entry["status"], entry["reason"], entry.get("message", "")

    # --- the host

    def answer(self, read: Read) -> Answer:
        if read.kind in self.unread or read.cluster not in self.stores:
            return Pending()
        if read.cluster in self.unavailable:
            return self.unavailable[read.cluster]
        if read.cluster is None and read.kind in self.refused:
            return Unavailable("Forbidden", "2026-01-01T00:00:00Z", f"{read.kind.kind} is forbidden")
        store = self.stores[read.cluster]
        if read.name is not None:
            obj = store.get((read.kind, read.namespace or "", read.name))
            return Absent() if obj is None else Found(obj)
        return FoundAll(
            tuple(
                obj
                for (kind, namespace, _), obj in sorted(store.items(), key=lambda item: item[0])
                if kind == read.kind
                and (read.namespace is None or namespace == read.namespace)
                and all((obj["metadata"].get("labels") or {}).get(k) == v for k, v in read.labels)
            )
        )

    def observed(self, parent: Identity) -> dict[str, Observed]:
        seen = {key: Observed(manifest={}, ready=True) for owner, key in self.charts if owner == parent}
        for key, child in self.children.get(parent, {}).items():
            obj = self.stores[child.target].get(identity(child.manifest))
            if obj is not None:
                seen[key] = Observed(manifest=obj, ready=_is_ready(child, obj))
        return seen

    def reconcile(self, parent: Object) -> bool:
        """One pass over one object; gives whether anything changed."""
        key = identity(parent)
        composer = COMPOSERS[key[0]]
        answers: dict[Read, Answer] = {}
        for _ in range(3):
            wanted = composer.reads(parent, answers)
            if wanted <= answers.keys():
                break
            answers.update({read: self.answer(read) for read in wanted})
        world = FakeWorld(answers, observed=self.observed(key), host=self.host, place=self._planner())
        before = self._fingerprint()
        composition = composer.compose(parent, world)
        self.last[key] = composition
        self._carry_out(parent, composition)
        self._write_status(parent, composition)
        return self._fingerprint() != before

    def _fingerprint(self) -> bytes:
        return msgspec.json.encode([list(store.values()) for store in self.stores.values()])

    def settle(self, *, healthy: bool = True, rounds: int = 30) -> None:
        """Reconcile everything until nothing changes; healthy clusters follow each round."""
        for _ in range(rounds):
            parents = [o for d in DEFINITIONS for o in self.all(d.resource.gvk) if d.resource.gvk in COMPOSERS]
            changed = [self.reconcile(parent) for parent in parents if identity(parent) in self.stores[None]]
            moved = self.make_healthy() if healthy else False
            if not any(changed) and not moved:
                return
        raise AssertionError("the fleet does not come to rest")

    def _planner(self) -> Callable[[Any], Any] | None:
        place = self.place
        return None if place is None else lambda request: place(self, request)

    def _carry_out(self, parent: Object, composition: Composition) -> None:
        key = identity(parent)
        if composition.held:
            return
        mine = self.children.setdefault(key, {})
        wanted = {child.key for child in composition.children}
        for child in composition.children:
            if isinstance(child, Chart):
                self.charts[key, child.key] = child
                continue
            if child.target in self.unavailable:
                continue
            mine[child.key] = child
            self.apply(child.manifest, child.target, owner=parent if child.target is None else None)
        if composition.complete:
            for gone in mine.keys() - wanted:
                child = mine.pop(gone)
                self.stores[child.target].pop(identity(child.manifest), None)

    def _write_status(self, parent: Object, composition: Composition) -> None:
        stored = self.stores[None].get(identity(parent))
        if stored is None:
            return
        status = dict(stored.get("status") or {})
        conditions = {entry["type"]: entry for entry in status.get("conditions") or ()}
        if composition.complete and not composition.held:
            # A complete pass replaces what the composer said before; what the host found out stays.
            conditions = {name: entry for name, entry in conditions.items() if name in ("Ready", "EndpointAnswering")}
            status = status if composition.status is None else {}
        status.update(composition.status or {})
        written: list[Condition] = [*composition.conditions, *([composition.ready] if composition.ready else [])]
        for condition in written:
            entry = msgspec.to_builtins(condition)
            conditions[condition.type] = entry | {"observedGeneration": stored["metadata"]["generation"]}
        status["conditions"] = [conditions[name] for name in sorted(conditions)]
        stored["status"] = status

    # --- what clusters do by themselves

    def make_healthy(self) -> bool:
        before = self._fingerprint()
        for cluster, store in self.stores.items():
            if cluster in self.unavailable:
                continue
            for (kind, _, name), obj in store.items():
                if kind == DEPLOYMENT:
                    obj["status"] = _rolled_out(obj)
                elif kind == GATEWAY:
                    address = self.addresses.get(cluster, f"{name}.{cluster or 'control'}")
                    obj["status"] = {"addresses": [{"type": "IPAddress", "value": address}]}
                elif kind == HTTP_ROUTE:
                    accepted = {"type": "Accepted", "status": "True", "reason": "Accepted"}
                    obj["status"] = {"parents": [{"conditions": [accepted]}]}
        for replica in self.all(MODEL_REPLICA):
            if is_true(replica, "Ready") and self.models:
                self._ask(replica)
        return self._fingerprint() != before

    def _ask(self, replica: Object) -> None:
        """The host's call of /v1/models, whose outcome composers read."""
        answers = replica["metadata"]["name"] not in self.mute
        kept = [entry for entry in replica["status"]["conditions"] if entry["type"] != "EndpointAnswering"]
        status, reason = ("True", "Answering") if answers else ("False", "NoAnswer")
        said = {"type": "EndpointAnswering", "status": status, "reason": reason}
        said["observedGeneration"] = replica["metadata"]["generation"]
        conditions = sorted([*kept, said], key=lambda entry: entry["type"])
        replica["status"] = (
            replica["status"] | {"conditions": conditions} | ({"models": self.models} if answers else {})
        )


def _defaulted(schema: Object, value: Any) -> Any:
    """The value as the API server stores it."""
    if isinstance(value, dict):
        properties = schema.get("properties") or {}
        filled = {key: _defaulted(properties.get(key, {}), child) for key, child in value.items()}
        for key, child in properties.items():
            if key not in filled and "default" in child:
                filled[key] = _defaulted(child, copy.deepcopy(child["default"]))
        return filled
    if isinstance(value, list):
        return [_defaulted(schema.get("items") or {}, child) for child in value]
    return value


def _rolled_out(obj: Object) -> Object:
    replicas = obj["spec"]["replicas"]
    return {
        "observedGeneration": obj["metadata"]["generation"],
        "replicas": replicas,
        "updatedReplicas": replicas,
        "readyReplicas": replicas,
        "availableReplicas": replicas,
        "conditions": [{"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable"}],
    }


def _is_ready(child: Child, obj: Object) -> bool:
    if isinstance(child.ready, ConditionTrue):
        return is_true(obj, child.ready.type)
    if isinstance(child.ready, Cel):
        return compile_rule(child.ready.expression, ("object",)).holds(object=obj)
    return True


def _body(obj: Object) -> Object:
    return {field: value for field, value in obj.items() if field not in ("metadata", "status")}
