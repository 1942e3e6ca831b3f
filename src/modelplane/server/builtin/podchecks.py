"""Rules of pod specs, wherever they are: names, images, ports, mounts, probes, resources, tolerations.

The rules that people and controllers meet; what only exotic volumes and security contexts break is not judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from modelplane.api.meta import Object
from modelplane.plan.quantity import Quantity, QuantityError, parse_quantity
from modelplane.server.schema import names
from modelplane.server.schema.errors import ErrorType, FieldError, supported

Errors = Iterator[FieldError]
_HANDLERS: Final = ("exec", "grpc", "httpGet", "tcpSocket")
_PULL: Final = ("Always", "IfNotPresent", "Never")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_DNS: Final = ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None")
_EFFECTS: Final = ("NoExecute", "NoSchedule", "PreferNoSchedule")
_RESTART: Final = ("Always", "Never", "OnFailure")
_NATIVE: Final = ("cpu", "memory", "ephemeral-storage")


def required(path: str, message: str = "") -> FieldError:
    return FieldError(path=path, type=ErrorType.REQUIRED, message=message)


def invalid(path: str, value: object, message: str) -> FieldError:
    return FieldError(path=path, type=ErrorType.INVALID, bad_value=value, message=message)


def forbidden(path: str, message: str) -> FieldError:
    return FieldError(path=path, type=ErrorType.FORBIDDEN, message=message)


def duplicate(path: str, value: object) -> FieldError:
    return FieldError(path=path, type=ErrorType.DUPLICATE, bad_value=value)


def not_found(path: str, value: object) -> FieldError:
    return FieldError(path=path, type=ErrorType.NOT_FOUND, bad_value=value)


def not_negative(obj: Object, path: str, *fields: str) -> Errors:
    """Errors of fields that are below zero."""
    for field in fields:
        value = obj.get(field)
        if isinstance(value, int) and value < 0:
            yield invalid(f"{path}.{field}", value, "must be greater than or equal to 0")


def one_of(obj: Object, path: str, field: str, choices: Sequence[str]) -> Errors:
    """An error when a field that is set has none of the given values."""
    if obj.get(field) and obj[field] not in choices:
        yield supported(f"{path}.{field}", obj[field], choices)


def named(items: Iterable[Object], path: str) -> Errors:
    """Items of a list whose names are DNS labels and come once."""
    seen: set[str] = set()
    for position, item in enumerate(items):
        name, where = item.get("name") or "", f"{path}[{position}].name"
        if not name:
            yield required(where)
            continue
        yield from (invalid(where, name, words) for words in names.dns_label(name))
        if name in seen:
            yield duplicate(where, name)
        seen.add(name)


def port(value: object, path: str) -> Errors:
    if value in (None, 0):
        yield required(path)
    elif not isinstance(value, int) or not 1 <= value <= 65535:
        yield invalid(path, value, "must be between 1 and 65535, inclusive")


def pod_spec(spec: Object, path: str = "spec", restart: Sequence[str] = _RESTART) -> Errors:
    """Everything wrong with a defaulted pod spec; ``restart`` are the restart policies that its owner allows."""
    volumes, claims = spec.get("volumes") or [], spec.get("resourceClaims") or []
    containers, inits = spec.get("containers") or [], spec.get("initContainers") or []
    if not containers:
        yield required(f"{path}.containers")
    yield from _volumes(volumes, f"{path}.volumes")
    yield from _claims(claims, f"{path}.resourceClaims")
    known = {volume.get("name") for volume in volumes}
    claimed = {claim.get("name") for claim in claims}
    for role, found in (("initContainers", inits), ("containers", containers)):
        yield from named(found, f"{path}.{role}")
        for position, container in enumerate(found):
            yield from _container(container, f"{path}.{role}[{position}]", known, claimed)
    taken = {container.get("name") for container in inits}
    for position, container in enumerate(containers):
        if container.get("name") and container["name"] in taken:
            yield duplicate(f"{path}.containers[{position}].name", container["name"])
    yield from one_of(spec, path, "restartPolicy", restart)
    yield from one_of(spec, path, "dnsPolicy", _DNS)
    yield from not_negative(spec, path, "terminationGracePeriodSeconds")
    if isinstance(spec.get("activeDeadlineSeconds"), int) and spec["activeDeadlineSeconds"] < 1:
        message = "must be between 1 and 2147483647, inclusive"
        yield invalid(f"{path}.activeDeadlineSeconds", spec["activeDeadlineSeconds"], message)
    yield from names.labels(spec.get("nodeSelector") or {}, f"{path}.nodeSelector")
    for position, toleration in enumerate(spec.get("tolerations") or ()):
        yield from _toleration(toleration, f"{path}.tolerations[{position}]")
    for field in ("serviceAccountName", "nodeName"):
        value = spec.get(field)
        yield from (invalid(f"{path}.{field}", value, words) for words in (names.dns_subdomain(value) if value else ()))


def _volumes(volumes: list[Object], path: str) -> Errors:
    yield from named(volumes, path)
    for position, volume in enumerate(volumes):
        sources = sorted(key for key, value in volume.items() if key != "name" and value is not None)
        for extra in sources[1:]:
            yield forbidden(f"{path}[{position}].{extra}", "may not specify more than 1 volume type")


def _claims(claims: list[Object], path: str) -> Errors:
    yield from named(claims, path)
    for position, claim in enumerate(claims):
        given = [field for field in ("resourceClaimName", "resourceClaimTemplateName") if claim.get(field)]
        if len(given) != 1:
            both = "`resourceClaimName`, `resourceClaimTemplateName`"
            message = f"at most one of {both} may be specified" if given else f"must specify one of: {both}"
            yield invalid(f"{path}[{position}]", claim, message)


def _container(container: Object, path: str, volumes: set[object], claims: set[object]) -> Errors:
    image = container.get("image") or ""
    if not image:
        yield required(f"{path}.image")
    elif image != image.strip():
        yield invalid(f"{path}.image", image, "must not have leading or trailing whitespace")
    yield from one_of(container, path, "imagePullPolicy", _PULL)
    yield from _ports(container.get("ports") or (), f"{path}.ports")
    for position, variable in enumerate(container.get("env") or ()):
        where = f"{path}.env[{position}]"
        if not variable.get("name"):
            yield required(f"{where}.name")
        if variable.get("value") and variable.get("valueFrom"):
            yield invalid(f"{where}.valueFrom", "", "may not be specified when `value` is not empty")
    yield from _mounts(container.get("volumeMounts") or (), f"{path}.volumeMounts", volumes)
    yield from _resources(container.get("resources") or {}, f"{path}.resources", claims)
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        probe = container.get(name)
        if probe is not None:
            yield from _probe(probe, f"{path}.{name}", once=name != "readinessProbe")


def _ports(ports: Iterable[Object], path: str) -> Errors:
    seen: set[str] = set()
    for position, entry in enumerate(ports):
        where = f"{path}[{position}]"
        yield from port(entry.get("containerPort"), f"{where}.containerPort")
        yield from one_of(entry, where, "protocol", _PROTOCOLS)
        name = entry.get("name")
        if name:
            yield from port_name(name, f"{where}.name")
            if name in seen:
                yield duplicate(f"{where}.name", name)
            seen.add(name)


def port_name(name: str, path: str) -> Errors:
    """The name of a container port: an IANA service name."""
    if len(name) > 15:
        yield invalid(path, name, "must be no more than 15 characters")
    if not all(char.islower() or char.isdigit() or char == "-" for char in name):
        yield invalid(path, name, "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not any(char.isalpha() for char in name):
        yield invalid(path, name, "must contain at least one letter (a-z)")
    if "--" in name:
        yield invalid(path, name, "must not contain consecutive hyphens")
    if name.startswith("-") or name.endswith("-"):
        yield invalid(path, name, "must not begin or end with a hyphen")


def _mounts(mounts: Iterable[Object], path: str, volumes: set[object]) -> Errors:
    seen: set[str] = set()
    for position, mount in enumerate(mounts):
        where = f"{path}[{position}]"
        if not mount.get("name"):
            yield required(f"{where}.name")
        elif mount["name"] not in volumes:
            yield not_found(f"{where}.name", mount["name"])
        target = mount.get("mountPath") or ""
        if not target:
            yield required(f"{where}.mountPath")
        elif target in seen:
            yield invalid(f"{where}.mountPath", target, "must be unique")
        seen.add(target)


def _resources(resources: Object, path: str, claims: set[object]) -> Errors:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for kind, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            where = f"{path}.{kind}[{name}]"
            parsed = _parsed(amount)
            if parsed is not None and parsed.sign() < 0:
                yield invalid(where, str(amount), "must be greater than or equal to 0")
            if "/" not in name and name not in _NATIVE and not name.startswith("hugepages-"):
                yield invalid(where, name, "must be a standard resource for containers")
    for name, amount in requests.items():
        where = f"{path}.requests"
        limit = limits.get(name)
        if limit is None:
            if "/" in name:
                yield required(f"{path}.limits", "Limit must be set for non overcommitable resources")
            continue
        wanted, most = _parsed(amount), _parsed(limit)
        if wanted is None or most is None:
            continue
        if "/" in name and wanted.compare(most) != 0:
            yield invalid(where, str(amount), f"must be equal to {name} limit of {limit}")
        elif wanted.compare(most) > 0:
            yield invalid(where, str(amount), f"must be less than or equal to {name} limit of {limit}")
    for position, claim in enumerate(resources.get("claims") or ()):
        if claim.get("name") not in claims:
            yield not_found(f"{path}.claims[{position}].name", claim.get("name") or "")


def _parsed(amount: object) -> Quantity | None:
    try:
        return parse_quantity(str(amount))
    except QuantityError:
        return None


def _probe(probe: Object, path: str, *, once: bool) -> Errors:
    handlers = [name for name in _HANDLERS if probe.get(name) is not None]
    if not handlers:
        yield required(path, "must specify a handler type")
    for extra in handlers[1:]:
        yield forbidden(f"{path}.{extra}", "may not specify more than 1 handler type")
    yield from not_negative(
        probe, path, "initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"
    )
    if once and probe.get("successThreshold") not in (None, 1):
        yield invalid(f"{path}.successThreshold", probe["successThreshold"], "must be 1")
    for name in handlers:
        target = probe[name].get("port") if isinstance(probe[name], dict) else None
        if name == "exec" and not (probe["exec"] or {}).get("command"):
            yield required(f"{path}.exec.command")
        elif name != "exec" and not isinstance(target, str):
            yield from port(target, f"{path}.{name}.port")


def _toleration(toleration: Object, path: str) -> Errors:
    operator, effect = toleration.get("operator") or "Equal", toleration.get("effect")
    if operator not in ("Equal", "Exists", "Lt", "Gt"):
        yield supported(f"{path}.operator", operator, ("Equal", "Exists"))
    if not toleration.get("key") and operator != "Exists":
        yield invalid(
            f"{path}.operator",
            operator,
            'operator must be Exists when `key` is empty, which means "match all values and all keys"',
        )
    if operator == "Exists" and toleration.get("value"):
        yield invalid(f"{path}.operator", toleration["value"], "value must be empty when `operator` is 'Exists'")
    if effect and effect not in _EFFECTS:
        yield supported(f"{path}.effect", effect, _EFFECTS)
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        yield invalid(f"{path}.effect", effect or "", "effect must be 'NoExecute' when `tolerationSeconds` is set")
