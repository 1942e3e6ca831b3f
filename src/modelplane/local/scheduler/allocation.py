"""The AllocationResult of a claim: which devices it has, their configuration, and from which nodes they can be used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from modelplane.api.meta import Object
from modelplane.local.scheduler.pools import Device


@dataclass(frozen=True, slots=True)
class Given:
    """One device for a request; of an alternative, `request` has both names."""

    request: str
    device: Device
    admin: bool
    tolerations: tuple[Mapping[str, Any], ...]


def results(claim: Object) -> Sequence[Mapping[str, Any]]:
    """The devices that a claim has, as it says itself."""
    allocated = (claim.get("status") or {}).get("allocation") or {}
    found: Sequence[Mapping[str, Any]] = (allocated.get("devices") or {}).get("results") or ()
    return found


def allocation(claim: Object, classes: Mapping[str, Object], given: Sequence[Given], node: str) -> Object:
    """What is to be written into the claim's status for the node that was chosen."""
    devices: Object = {"results": [_result(each) for each in given]}
    config = _config(claim["spec"].get("devices") or {}, classes, [each.request for each in given])
    if config:
        devices["config"] = config
    selector = _selector(given, node)
    return {"devices": devices, **({"nodeSelector": selector} if selector else {})}


def _result(given: Given) -> Object:
    device = given.device
    return {
        "request": given.request,
        "driver": device.driver,
        "pool": device.pool,
        "device": device.name,
        **({"adminAccess": True} if given.admin else {}),
        **({"tolerations": list(given.tolerations)} if given.tolerations else {}),
    }


def _config(spec: Mapping[str, Any], classes: Mapping[str, Object], used: Sequence[str]) -> list[Object]:
    """Each class's configuration once, with the requests that it is for; then the claim's own."""
    config: list[Object] = []
    of_class: dict[str, list[Object]] = {}
    chosen: set[str] = set()
    for request in spec.get("requests") or ():
        subrequests = {f"{request['name']}/{sub['name']}": sub for sub in request.get("firstAvailable") or ()}
        name, ask = next(
            ((name, sub) for name, sub in subrequests.items() if name in used),
            (request["name"], request.get("exactly") or {}),
        )
        chosen |= {name, request["name"]}
        of = ask["deviceClassName"]
        if of in of_class:
            for entry in of_class[of]:
                entry["requests"].append(name)
            continue
        of_class[of] = [
            {"source": "FromClass", "requests": [name], **entry}
            for entry in (classes[of].get("spec") or {}).get("config") or ()
        ]
        config += of_class[of]
    for entry in spec.get("config") or ():
        if not entry.get("requests"):
            config.append({"source": "FromClaim", **entry})
        else:
            named = [each["name"] for each in spec["requests"] if _names(entry["requests"], each, chosen)]
            config += [{"source": "FromClaim", **entry} for _ in named]
    return config


def _names(requests: Sequence[str], request: Mapping[str, Any], chosen: set[str]) -> bool:
    """Whether a configuration is for this request: by its name, or by that of the alternative that was taken."""
    alternatives = [f"{request['name']}/{sub['name']}" for sub in request.get("firstAvailable") or ()]
    return request["name"] in requests or any(name in requests and name in chosen for name in alternatives)


def _selector(given: Sequence[Given], node: str) -> Object | None:
    """This node, when a device belongs to one; else what the devices' own selectors ask together; None is everywhere."""
    fields: list[Object] = []
    labels: list[Object] = []
    for each in given:
        reach = each.device.reach
        if reach.get("nodeName"):
            here = {"key": "metadata.name", "operator": "In", "values": [node]}
            return {"nodeSelectorTerms": [{"matchFields": [here]}]}
        for term in ((reach.get("nodeSelector") or {}).get("nodeSelectorTerms") or ())[:1]:
            for into, wanted in ((fields, term.get("matchFields")), (labels, term.get("matchExpressions"))):
                into.extend(one for one in wanted or () if one not in into)
    if not fields and not labels:
        return None
    term = {**({"matchFields": fields} if fields else {}), **({"matchExpressions": labels} if labels else {})}
    return {"nodeSelectorTerms": [term]}
