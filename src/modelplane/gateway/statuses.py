"""What the gateway says about the objects that it serves, in Gateway API's conditions and reasons.

Pure: facts in, status out. Times of transition are added where the status is written, so that saying the same thing
twice changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from modelplane.api.meta import Key, Object
from modelplane.gateway.attachment import ListenerFacts, ParentFacts, Picture

_GATEWAY_FIELDS: Final = frozenset({"gatewayClassName", "listeners", "addresses", "infrastructure"})


class ProxyFacts(msgspec.Struct, frozen=True):
    """How a Gateway's proxy is: its published addresses, whether it serves the Gateway's configuration, and if not, why.

    `refused` has Envoy's words by route ("namespace/name"), for routes whose cluster it would not take.
    """

    addresses: tuple[str, ...] = ()
    programmed: bool = False
    problem: str = ""
    refused: Mapping[str, str] = {}


def class_status(obj: Object) -> Object:
    message = "Served by Envoy on this host."
    if obj["spec"].get("parametersRef"):
        message += " The parameters describe a cloud load balancer and pods, and have no meaning here."
    return {"conditions": [_condition(obj, "Accepted", True, "Accepted", message)]}


def gateway_status(obj: Object, listeners: Iterable[ListenerFacts], proxy: ProxyFacts) -> Object:
    """Addresses, conditions and listeners of a Gateway."""
    listeners = tuple(listeners)
    refused = [entry for entry in listeners if entry.refused]
    accepted, reason, message = True, "Accepted", "Envoy serves this Gateway."
    if obj["spec"].get("addresses"):
        accepted, reason = False, "UnsupportedAddress"
        message = "spec.addresses: the host chooses the address; remove the field and read status.addresses."
    elif unknown := [field for field in obj["spec"] if field not in _GATEWAY_FIELDS]:
        accepted, reason = False, "UnsupportedValue"
        message = f"spec.{unknown[0]} is not supported by this gateway and is not carried out; take it away."
    elif refused:
        reason = "ListenersNotValid"
        accepted = len(refused) < len(listeners)
        message = "; ".join(f"listener {entry.name}: {entry.refused.message}" for entry in refused if entry.refused)
    if proxy.programmed:
        programmed = _condition(obj, "Programmed", True, "Programmed", "Envoy has the configuration and listens.")
    else:
        programmed = _condition(
            obj, "Programmed", False, "Invalid" if "refused" in proxy.problem else "Pending", proxy.problem
        )
    return {
        "addresses": [_address(value) for value in proxy.addresses],
        "conditions": [_condition(obj, "Accepted", accepted, reason, message), programmed],
        "listeners": [_listener(obj, entry, proxy) for entry in listeners],
    }


def route_status(
    obj: Object, facts: Iterable[ParentFacts], picture: Picture, proxies: Mapping[Key, ProxyFacts]
) -> list[Object]:
    """The `parents` entries of an HTTPRoute that are ours."""
    key = Key.of(obj)
    parents = []
    for fact in facts:
        words = proxies.get(fact.gateway, ProxyFacts()).refused.get(f"{key.namespace}/{key.name}")
        if fact.refused is not None:
            accepted = _condition(obj, "Accepted", False, fact.refused.reason, fact.refused.message)
        elif words:
            accepted = _condition(
                obj, "Accepted", False, "UnsupportedValue", f"Envoy refused the configuration: {words}"
            )
        else:
            accepted = _condition(obj, "Accepted", True, "Accepted", "The gateway serves this route.")
        if fact.unresolved:
            told = "; ".join(entry.message for entry in fact.unresolved)
            message = f"{told}. The other backends serve meanwhile."
            resolved = _condition(obj, "ResolvedRefs", False, fact.unresolved[0].reason, message)
        else:
            resolved = _condition(obj, "ResolvedRefs", True, "ResolvedRefs", "Every backend is known.")
        parents.append(
            {
                "parentRef": fact.ref,
                "controllerName": picture.controllers[fact.gateway],
                "conditions": [accepted, resolved],
            }
        )
    return parents


def pool_status(obj: Object, gateways: Iterable[Key], picture: Picture) -> list[Object]:
    """The `parents` entries of an InferencePool that are ours."""
    message = "Requests go to the ready pod with the fewest in flight; the endpoint picker is not asked on this host."
    return [
        {
            "parentRef": {
                "group": "gateway.networking.k8s.io",
                "kind": "Gateway",
                "name": key.name,
                "namespace": key.namespace,
            },
            "controllerName": picture.controllers[key],
            "conditions": [
                _condition(obj, "Accepted", True, "Accepted", message),
                _condition(obj, "ResolvedRefs", True, "ResolvedRefs", "The pool's references are known."),
            ],
        }
        for key in gateways
    ]


def dated(conditions: Iterable[Object], before: Iterable[Object], now: str) -> list[Object]:
    """Conditions with their time of transition: the old one where the status stays, else now."""
    known = {entry["type"]: entry for entry in before}
    return [
        {
            **entry,
            "lastTransitionTime": known[entry["type"]].get("lastTransitionTime") or now
            if entry["type"] in known and known[entry["type"]].get("status") == entry["status"]
            else now,
        }
        for entry in conditions
    ]


def _listener(obj: Object, facts: ListenerFacts, proxy: ProxyFacts) -> Object:
    if facts.refused is not None:
        accepted = _condition(obj, "Accepted", False, facts.refused.reason, facts.refused.message)
        programmed = _condition(obj, "Programmed", False, "Invalid", facts.refused.message)
        kinds: list[Object] = []
    else:
        accepted = _condition(obj, "Accepted", True, "Accepted", "The listener is valid.")
        programmed = (
            _condition(obj, "Programmed", True, "Programmed", "Envoy listens.")
            if proxy.programmed
            else _condition(obj, "Programmed", False, "Pending", proxy.problem)
        )
        kinds = [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute"}]
    return {
        "name": facts.name,
        "attachedRoutes": facts.attached,
        "supportedKinds": kinds,
        "conditions": [accepted, programmed, _condition(obj, "ResolvedRefs", True, "ResolvedRefs", "No references.")],
    }


def _address(value: str) -> Object:
    """`host` as an IP address; `host:port`, which Gateway API has no type for, as a host name."""
    kind = "Hostname" if value.count(":") == 1 or value.startswith("[") else "IPAddress"
    return {"type": kind, "value": value}


def _condition(obj: Object, type_: str, status: bool, reason: str, message: str) -> Object:
    return {
        "type": type_,
        "status": "True" if status else "False",
        "reason": reason,
        "message": message[:32768],
        "observedGeneration": obj["metadata"].get("generation") or 1,
    }
