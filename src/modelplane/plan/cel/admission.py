"""What a schema cannot refuse: selectors that do not compile, and attribute names that no device could publish.

One function for the embedded server, the operator's webhook and `modelplane check`, so that they say the same words. On an
update it judges only what changed: an object that was stored under older rules can always be edited elsewhere, and deleted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from modelplane.api import inference_class, model_deployment, model_replica
from modelplane.api.meta import GVK, Object
from modelplane.plan.cel.selectors import SelectorError, compile_selector

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,31}\Z")
_DOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\Z")
_DOMAIN_LENGTH: Final = 63


class Complaint(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to refuse: the path of the field, its value, and what is wrong with it."""

    path: str
    value: str
    message: str


def complaints(obj: Object, old: Object | None = None) -> list[Complaint]:
    """Everything to refuse about an object of ours; ``old`` is the stored one on an update. Other kinds pass."""
    known = {(said.value, said.message) for said in _complaints(old)} if old is not None else set()
    return [said for said in _complaints(obj) if (said.value, said.message) not in known]


def _complaints(obj: Object) -> Iterator[Complaint]:
    kind = GVK.parse(str(obj.get("apiVersion", "")), str(obj.get("kind", "")))
    spec = _map(obj.get("spec"))
    if kind == model_deployment.KIND:
        yield from _engines(
            _map(_map(spec.get("template")).get("spec")), "spec.template.spec", ("nodeSelector", "devices")
        )
    elif kind == model_replica.KIND:
        yield from _engines(spec, "spec", ("deviceRequests",))
    elif kind == inference_class.KIND:
        yield from _devices(spec)


def _engines(holder: Mapping[str, Any], path: str, way: tuple[str, ...]) -> Iterator[Complaint]:
    for engine_path, engine in _entries(holder.get("engines"), f"{path}.engines"):
        for member_path, member in _entries(engine.get("members"), f"{engine_path}.members"):
            found: Any = member
            for step in way:
                found = _map(found).get(step)
            for ask_path, ask in _entries(found, ".".join((member_path, *way))):
                for selector_path, selector in _entries(ask.get("selectors"), f"{ask_path}.selectors"):
                    text = selector.get("cel")
                    if isinstance(text, str):
                        yield from _selector(text, f"{selector_path}.cel")


def _selector(text: str, path: str) -> Iterator[Complaint]:
    try:
        compile_selector(text)
    except SelectorError as error:
        for issue in error.issues:
            where = f"line {issue.line}, column {issue.column}: " if issue.line else ""
            yield Complaint(path=path, value=text, message=f"{where}{issue.message}")


def _devices(spec: Mapping[str, Any]) -> Iterator[Complaint]:
    for path, device in _entries(spec.get("devices"), "spec.devices"):
        for block in ("attributes", "capacity"):
            for name in _map(device.get(block)):
                fault = name_fault(str(name))
                if fault:
                    yield Complaint(path=f"{path}.{block}[{name}]", value=str(name), message=fault)


def name_fault(text: str) -> str:
    """Why a device could not publish an attribute or capacity of this name; empty when it could."""
    domain, slash, name = text.rpartition("/")
    if slash and (len(domain) > _DOMAIN_LENGTH or not _DOMAIN.match(domain)):
        return f"the domain {domain!r} must be a DNS subdomain of at most {_DOMAIN_LENGTH} characters"
    if not _NAME.match(name):
        return (
            f"the name {name!r} must be at most 32 letters, digits and '_' and not begin with a digit, "
            "because device drivers cannot publish any other"
        )
    return ""


def driver_fault(text: str) -> str:
    """Why no DRA driver could have this name; empty when one could."""
    if len(text) > _DOMAIN_LENGTH or not _DOMAIN.match(text):
        return f"the driver {text!r} must be a DNS subdomain of at most {_DOMAIN_LENGTH} characters"
    return ""


def _map(value: Any) -> Mapping[str, Any]:
    """A JSON object, or an empty one in place of anything else: the schema complains about that."""
    return value if isinstance(value, Mapping) else {}


def _entries(value: Any, path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The objects of a list with their paths."""
    if isinstance(value, list):
        for position, entry in enumerate(value):
            yield f"{path}[{position}]", _map(entry)
