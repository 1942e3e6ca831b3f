"""Which Gateways are ours, which routes attach to which listener, and what stands in the way.

Pure: one pass over the objects of one cluster gives the model of every Gateway and the facts that `statuses` writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Final

import msgspec

from modelplane.api.meta import Key, Object
from modelplane.gateway import httproutes
from modelplane.gateway.backends import Backends, Unresolved
from modelplane.gateway.model import Gateway, Listener, Route

GROUP: Final = "gateway.networking.k8s.io"
FRONT_DOOR: Final = "traefik.io/gateway-controller"
CLUSTER_GATEWAY: Final = "gateway.envoyproxy.io/gatewayclass-controller"


_LISTENER_FIELDS: Final = frozenset({"name", "port", "protocol", "hostname", "allowedRoutes"})


class Objects(msgspec.Struct, frozen=True, kw_only=True):
    """What is read from one cluster."""

    classes: tuple[Object, ...] = ()
    gateways: tuple[Object, ...] = ()
    routes: tuple[Object, ...] = ()
    services: tuple[Object, ...] = ()
    slices: tuple[Object, ...] = ()
    pools: tuple[Object, ...] = ()
    pods: tuple[Object, ...] = ()
    namespaces: tuple[Object, ...] = ()


class ListenerFacts(msgspec.Struct, frozen=True):
    """One listener of a Gateway: why it cannot serve, if so, and how many routes it has."""

    name: str
    refused: httproutes.Refused | None
    attached: int


class ParentFacts(msgspec.Struct, frozen=True):
    """One parentRef of a route that means one of our Gateways: why it does not attach, if so."""

    ref: Object
    gateway: Key
    refused: httproutes.Refused | None
    unresolved: tuple[Unresolved, ...]


class Picture(msgspec.Struct, frozen=True):
    """Everything about one cluster: what to serve, and what to say about each object."""

    gateways: dict[Key, Gateway]
    controllers: dict[Key, str]
    classes: tuple[Object, ...]
    gateway_objects: dict[Key, Object]
    listeners: dict[Key, tuple[ListenerFacts, ...]]
    routes: dict[Key, tuple[ParentFacts, ...]]
    pools: dict[Key, tuple[Key, ...]]


def attach(
    objects: Objects,
    controllers: Set[str],
    reader: httproutes.Reader | None = None,
    serving: Mapping[Key, str] | None = None,
) -> Picture:
    """The Gateways whose class names one of `controllers`, with their routes.

    A `reader` that is kept from pass to pass changes nothing but the time that it takes. `serving` has the Gateways that
    are served already, with their controller: a class that is briefly missing takes none of them down.
    """
    reader = reader or httproutes.Reader()
    classes = tuple(entry for entry in objects.classes if entry["spec"].get("controllerName") in controllers)
    names = {entry["metadata"]["name"]: entry["spec"]["controllerName"] for entry in classes}
    present = {entry["metadata"]["name"] for entry in objects.classes}
    controller_of: dict[Key, str] = {}
    for entry in objects.gateways:
        key, class_ = Key.of(entry), entry["spec"].get("gatewayClassName")
        if class_ in names:
            controller_of[key] = names[class_]
        elif serving and key in serving and class_ not in present:
            controller_of[key] = serving[key]
    ours = {Key.of(entry): entry for entry in objects.gateways if Key.of(entry) in controller_of}
    labels = {entry["metadata"]["name"]: entry["metadata"].get("labels") or {} for entry in objects.namespaces}
    backends = Backends(objects.services, objects.slices, objects.pools, objects.pods)

    attached: dict[tuple[Key, str], list[Route]] = {}
    parents: dict[Key, tuple[ParentFacts, ...]] = {}
    pools: dict[Key, dict[Key, None]] = {}
    for obj in sorted(objects.routes, key=lambda obj: Key.of(obj)):
        key = Key.of(obj)
        refs = [ref for ref in (obj.get("spec") or {}).get("parentRefs") or () if _parent(ref, key.namespace) in ours]
        if not refs:
            continue
        read = reader.read(obj, backends.resolve)
        facts = []
        for ref in refs:
            gateway = _parent(ref, key.namespace)
            refused = read.refused
            if read.route is not None:
                listeners = _attaching(ref, key.namespace, read.route, ours[gateway], labels)
                if isinstance(listeners, httproutes.Refused):
                    refused = listeners
                else:
                    for name in listeners:
                        attached.setdefault((gateway, name), []).append(read.route)
            facts.append(ParentFacts(ref, gateway, refused, read.unresolved))
            for pool in _pools(obj):
                pools.setdefault(pool, {})[gateway] = None
        parents[key] = tuple(facts)

    reader.keep(parents.keys())

    listeners_of: dict[Key, tuple[ListenerFacts, ...]] = {}
    gateways: dict[Key, Gateway] = {}
    for key, obj in ours.items():
        usable, told = [], []
        for entry in obj["spec"].get("listeners") or ():
            routes = attached.get((key, entry["name"]), [])
            refused = _refused(entry)
            told.append(ListenerFacts(entry["name"], refused, len(routes)))
            if refused is None:
                usable.append(
                    Listener(entry["name"], entry["port"], (entry.get("hostname") or "").lower(), tuple(routes))
                )
        listeners_of[key] = tuple(told)
        if not obj["metadata"].get("deletionTimestamp"):
            gateways[key] = Gateway(key.namespace, key.name, tuple(usable))
    known = {Key.of(pool) for pool in objects.pools}
    return Picture(
        gateways=gateways,
        controllers=controller_of,
        classes=classes,
        gateway_objects=ours,
        listeners=listeners_of,
        routes=parents,
        pools={pool: tuple(owners) for pool, owners in pools.items() if pool in known},
    )


def _parent(ref: Object, namespace: str) -> Key:
    if ref.get("group", GROUP) != GROUP or ref.get("kind", "Gateway") != "Gateway":
        return Key("", "")
    return Key(ref.get("namespace") or namespace, ref["name"])


def _pools(obj: Object) -> Iterable[Key]:
    for rule in obj["spec"].get("rules") or ():
        for ref in rule.get("backendRefs") or ():
            if ref.get("kind") == "InferencePool":
                yield Key(obj["metadata"]["namespace"], ref["name"])


def _refused(listener: Object) -> httproutes.Refused | None:
    protocol = listener.get("protocol")
    if protocol != "HTTP":
        return httproutes.Refused("UnsupportedProtocol", f"protocol {protocol} is not served by this gateway; use HTTP")
    for field in listener:
        if field not in _LISTENER_FIELDS:
            return httproutes.Refused("UnsupportedValue", f"{field} is not supported by this gateway; take it away")
    return None


def _attaching(
    ref: Object, namespace: str, route: Route, gateway: Object, labels: dict[str, dict[str, str]]
) -> list[str] | httproutes.Refused:
    """The listeners that a parentRef attaches to, or the reason of Gateway API why there is none."""
    listeners = [
        entry
        for entry in gateway["spec"].get("listeners") or ()
        if ref.get("sectionName") in (None, "", entry["name"]) and ref.get("port") in (None, entry["port"])
    ]
    where = f"Gateway {Key.of(gateway)}"
    if not listeners:
        return httproutes.Refused(
            "NoMatchingParent", f"{where} has no listener {ref.get('sectionName') or ref.get('port')}"
        )
    allowed = [entry for entry in listeners if _allows(entry, namespace, gateway, labels)]
    if not allowed:
        return httproutes.Refused(
            "NotAllowedByListeners", f"the listeners of {where} take no routes from namespace {namespace}"
        )
    matching = [entry["name"] for entry in allowed if hosts(route.hostnames, (entry.get("hostname") or "").lower())]
    if not matching:
        return httproutes.Refused(
            "NoMatchingListenerHostname",
            f"no listener of {where} has a host name that fits {', '.join(route.hostnames)}",
        )
    return matching


def _allows(listener: Object, namespace: str, gateway: Object, labels: dict[str, dict[str, str]]) -> bool:
    allowed = listener.get("allowedRoutes") or {}
    kinds = [entry.get("kind") for entry in allowed.get("kinds") or ()]
    if kinds and "HTTPRoute" not in kinds:
        return False
    namespaces = allowed.get("namespaces") or {}
    match namespaces.get("from") or "Same":
        case "All":
            return True
        case "Same":
            return bool(namespace == gateway["metadata"]["namespace"])
        case "Selector":
            return _selects(namespaces.get("selector") or {}, labels.get(namespace, {}))
    return False


def _selects(selector: Object, labels: dict[str, str]) -> bool:
    if not (selector.get("matchLabels") or {}).items() <= labels.items():
        return False
    for entry in selector.get("matchExpressions") or ():
        key, values = entry["key"], entry.get("values") or ()
        match entry["operator"]:
            case "Exists":
                holds = key in labels
            case "DoesNotExist":
                holds = key not in labels
            case "In":
                holds = labels.get(key) in values
            case _:
                holds = labels.get(key) not in values
        if not holds:
            return False
    return True


def hosts(names: tuple[str, ...], listener: str) -> tuple[str, ...]:
    """The host names that a route serves on a listener: the narrower of each pair that meets, "*" for any."""
    if not names:
        return (listener or "*",)
    if not listener:
        return names
    return tuple(dict.fromkeys(both for name in names if (both := _narrower(name, listener))))


def _narrower(one: str, other: str) -> str:
    if one == other or (other.startswith("*.") and one.endswith(other[1:]) and one != other[1:]):
        return one
    if one.startswith("*.") and other.endswith(one[1:]):
        return other
    return ""
