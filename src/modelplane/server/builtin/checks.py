"""Rules of built-in kinds that no schema says, with kube-apiserver's sentences.

``podchecks.py`` has those of pods, ``servicechecks.py`` those of services and ``crds.py`` those of definitions. They judge
defaulted objects. Fields that an update may not change are compared with the stored object.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

from modelplane.api.meta import Object
from modelplane.server.builtin.crds import check as check_definition
from modelplane.server.builtin.least import LEAST
from modelplane.server.builtin.podchecks import (
    Errors,
    forbidden,
    invalid,
    named,
    not_negative,
    one_of,
    pod_spec,
    required,
)  # fmt: skip
from modelplane.server.builtin.servicechecks import endpoint_slice, service
from modelplane.server.schema import names
from modelplane.server.schema.errors import supported
from modelplane.server.schema.schema import Check

_RBAC: Final = "rbac.authorization.k8s.io"
_IMMUTABLE: Final = "field is immutable"
_ALWAYS: Final = ("Always",)
_ENDING: Final = ("OnFailure", "Never")
_DATA_KEY: Final = re.compile(r"[-._a-zA-Z0-9]+")
_STATEFUL_MUTABLE: Final = (
    "replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy", "minReadySeconds",
)  # fmt: skip


def _spec(obj: Object) -> Object:
    return obj.get("spec") or {}


def _pod(obj: Object, old: Object | None) -> Errors:
    if old is None:
        yield from pod_spec(_spec(obj))


def _pod_template(obj: Object, old: Object | None) -> Errors:
    yield from _template(obj.get("template") or {}, "template", ("Always", "Never", "OnFailure"))


def _template(template: Object, path: str, restart: Sequence[str]) -> Errors:
    yield from names.labels((template.get("metadata") or {}).get("labels") or {}, f"{path}.metadata.labels")
    yield from pod_spec(template.get("spec") or {}, f"{path}.spec", restart)


def _fixed(obj: Object, old: Object | None, *path: str) -> Errors:
    """An error when a field has another value than the stored one."""
    if old is None:
        return
    new_value: object = obj
    old_value: object = old
    for part in path:
        new_value = (new_value or {}).get(part) if isinstance(new_value, dict) else None
        old_value = (old_value or {}).get(part) if isinstance(old_value, dict) else None
    if new_value != old_value:
        yield invalid(".".join(path), new_value, _IMMUTABLE)


def _selected(obj: Object, kind: str, restart: Sequence[str] = _ALWAYS) -> Errors:
    """A workload's selector is there and finds the pods of its own template."""
    spec = _spec(obj)
    selector = spec.get("selector")
    template = spec.get("template") or {}
    labels = (template.get("metadata") or {}).get("labels") or {}
    if selector is None:
        shown = labels or None
        yield invalid("spec.template.metadata.labels", shown, "`selector` does not match template `labels`")
    else:
        if not selector.get("matchLabels") and not selector.get("matchExpressions"):
            yield invalid("spec.selector", selector, f"empty selector is invalid for {kind}")
        elif not _matches(selector, labels):
            yield invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")
    yield from not_negative(spec, "spec", "replicas", "minReadySeconds", "revisionHistoryLimit")
    yield from _template(template, "spec.template", restart)


def _matches(selector: Object, labels: Object) -> bool:
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    for term in selector.get("matchExpressions") or ():
        key, values = term.get("key"), term.get("values") or ()
        held = {
            "In": labels.get(key) in values,
            "NotIn": labels.get(key) not in values,
            "Exists": key in labels,
            "DoesNotExist": key not in labels,
        }
        if not held.get(term.get("operator"), False):
            return False
    return True


def _deployment(obj: Object, old: Object | None) -> Errors:
    yield from _selected(obj, "deployment")
    yield from _fixed(obj, old, "spec", "selector")
    spec = _spec(obj)
    strategy = spec.get("strategy") or {}
    yield from one_of(strategy, "spec.strategy", "type", ("Recreate", "RollingUpdate"))
    rolling = strategy.get("rollingUpdate")
    if strategy.get("type") == "Recreate" and rolling is not None:
        message = "may not be specified when strategy `type` is 'Recreate'"
        yield forbidden("spec.strategy.rollingUpdate", message)
    elif rolling:
        yield from _rolling(rolling, "spec.strategy.rollingUpdate")
    deadline, ready = spec.get("progressDeadlineSeconds"), spec.get("minReadySeconds") or 0
    if deadline is not None and deadline <= ready:
        yield invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")


def _rolling(rolling: Object, path: str) -> Errors:
    for field in ("maxUnavailable", "maxSurge"):
        value = rolling.get(field)
        if isinstance(value, str) and not re.fullmatch(r"[0-9]+%", value):
            message = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"  # noqa: E501
            yield invalid(f"{path}.{field}", value, message)
        yield from not_negative(rolling, path, field)
    if rolling.get("maxUnavailable") in (0, "0%") and rolling.get("maxSurge") in (0, "0%"):
        yield invalid(f"{path}.maxUnavailable", rolling["maxUnavailable"], "may not be 0 when `maxSurge` is 0")


def _replica_set(obj: Object, old: Object | None) -> Errors:
    yield from _selected(obj, "replicaset")
    yield from _fixed(obj, old, "spec", "selector")


def _daemon_set(obj: Object, old: Object | None) -> Errors:
    yield from _selected(obj, "daemonset")
    yield from _fixed(obj, old, "spec", "selector")
    yield from one_of(
        _spec(obj).get("updateStrategy") or {}, "spec.updateStrategy", "type", ("OnDelete", "RollingUpdate")
    )


def _stateful_set(obj: Object, old: Object | None) -> Errors:
    yield from _selected(obj, "statefulset")
    yield from one_of(_spec(obj), "spec", "podManagementPolicy", ("OrderedReady", "Parallel"))
    if old is not None:
        before, after = (
            {key: value for key, value in _spec(o).items() if key not in _STATEFUL_MUTABLE} for o in (old, obj)
        )
        if before != after:
            told = "', '".join(_STATEFUL_MUTABLE[:-1])
            yield forbidden(
                "spec",
                f"updates to statefulset spec for fields other than '{told}' and '{_STATEFUL_MUTABLE[-1]}' are forbidden",
            )


def _job(obj: Object, old: Object | None) -> Errors:
    spec = _spec(obj)
    yield from not_negative(
        spec, "spec", "parallelism", "completions", "backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished"
    )
    yield from one_of(spec, "spec", "completionMode", ("Indexed", "NonIndexed"))
    yield from _template(spec.get("template") or {}, "spec.template", _ENDING)
    if not spec.get("suspend"):
        yield from _fixed(obj, old, "spec", "template")
    yield from _fixed(obj, old, "spec", "completionMode")


def _cron_job(obj: Object, old: Object | None) -> Errors:
    spec = _spec(obj)
    if not spec.get("schedule"):
        yield required("spec.schedule")
    elif not str(spec["schedule"]).startswith("@") and len(str(spec["schedule"]).split()) != 5:
        found = len(str(spec["schedule"]).split())
        message = f"expected exactly 5 fields, found {found}: [{' '.join(str(spec['schedule']).split())}]"
        yield invalid("spec.schedule", spec["schedule"], message)
    yield from one_of(spec, "spec", "concurrencyPolicy", ("Allow", "Forbid", "Replace"))
    yield from not_negative(
        spec, "spec", "startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"
    )
    job = (spec.get("jobTemplate") or {}).get("spec") or {}
    yield from _template(job.get("template") or {}, "spec.jobTemplate.spec.template", _ENDING)


def _data(obj: Object, old: Object | None) -> Errors:
    for field in ("data", "binaryData"):
        for key in obj.get(field) or {}:
            if words := _wrong_key(key):
                yield invalid(f"{field}[{key}]", key, words)
    if obj.get("data") and obj.get("binaryData"):
        for key in obj["data"].keys() & obj["binaryData"].keys():
            yield invalid(f"data[{key}]", key, "duplicate of key present in binaryData")


@lru_cache(maxsize=1024)
def _wrong_key(key: str) -> str:
    """What is wrong with a key of a ConfigMap or Secret; there are few of them over all."""
    if not _DATA_KEY.fullmatch(key):
        return (
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or "
            "'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
        )
    if key in (".", ".."):
        return f"must not be '{key}'"
    return "must not start with '..'" if key.startswith("..") else ""


def _secret(obj: Object, old: Object | None) -> Errors:
    yield from _data(obj, old)
    yield from _fixed(obj, old, "type")
    if obj.get("type") == "kubernetes.io/service-account-token":
        account = "kubernetes.io/service-account.name"
        if not ((obj.get("metadata") or {}).get("annotations") or {}).get(account):
            yield required(f"metadata.annotations[{account}]")


def _role(obj: Object, old: Object | None) -> Errors:
    for position, rule in enumerate(obj.get("rules") or ()):
        path = f"rules[{position}]"
        if not rule.get("verbs"):
            yield required(f"{path}.verbs", "verbs must contain at least one value")
        if rule.get("nonResourceURLs"):
            if obj.get("kind") == "Role":
                yield invalid(
                    f"{path}.nonResourceURLs",
                    rule["nonResourceURLs"],
                    "namespaced rules cannot apply to non-resource URLs",
                )
            if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
                yield invalid(
                    f"{path}.nonResourceURLs",
                    rule["nonResourceURLs"],
                    "rules cannot apply to both regular resources and non-resource URLs",
                )
            continue
        if not rule.get("apiGroups"):
            yield required(f"{path}.apiGroups", "resource rules must supply at least one api group")
        if not rule.get("resources"):
            yield required(f"{path}.resources", "resource rules must supply at least one resource")


def _role_binding(obj: Object, old: Object | None) -> Errors:
    role = obj.get("roleRef") or {}
    kinds = ("Role", "ClusterRole") if obj.get("kind") == "RoleBinding" else ("ClusterRole",)
    if role.get("apiGroup") != _RBAC:
        yield supported("roleRef.apiGroup", role.get("apiGroup") or "", (_RBAC,))
    if role.get("kind") not in kinds:
        yield supported("roleRef.kind", role.get("kind") or "", kinds)
    if not role.get("name"):
        yield required("roleRef.name")
    if old is not None and role != (old.get("roleRef") or {}):
        shown = {"APIGroup": role.get("apiGroup"), "Kind": role.get("kind"), "Name": role.get("name")}
        yield invalid("roleRef", shown, "cannot change roleRef")
    for position, subject in enumerate(obj.get("subjects") or ()):
        path = f"subjects[{position}]"
        if not subject.get("name"):
            yield required(f"{path}.name")
        if subject.get("kind") not in ("ServiceAccount", "User", "Group"):
            yield supported(f"{path}.kind", subject.get("kind") or "", ("ServiceAccount", "User", "Group"))
        elif subject["kind"] == "ServiceAccount" and not subject.get("namespace"):
            yield required(f"{path}.namespace")


def _lease(obj: Object, old: Object | None) -> Errors:
    seconds = _spec(obj).get("leaseDurationSeconds")
    if seconds is not None and seconds <= 0:
        yield invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0")
    yield from not_negative(_spec(obj), "spec", "leaseTransitions")


def _resource_claim(obj: Object, old: Object | None) -> Errors:
    if old is None:
        yield from _device_requests(_spec(obj), "spec.devices.requests")
    yield from _fixed(obj, old, "spec")


def _resource_claim_template(obj: Object, old: Object | None) -> Errors:
    if old is None:
        yield from _device_requests(_spec(obj).get("spec") or {}, "spec.spec.devices.requests")
    yield from _fixed(obj, old, "spec")


def _device_requests(spec: Object, path: str) -> Errors:
    requests = (spec.get("devices") or {}).get("requests") or []
    yield from named(requests, path)
    for position, request in enumerate(requests):
        where = f"{path}[{position}]"
        exact, first = request.get("exactly"), request.get("firstAvailable")
        if not exact and not first:
            yield required(where, "exactly one of `exactly` or `firstAvailable` is required")
        elif exact and first:
            yield invalid(
                where, request, "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set"
            )
        elif exact:
            yield from _exact(exact, f"{where}.exactly")
        for rank, choice in enumerate(first or ()):
            yield from _exact(choice, f"{where}.firstAvailable[{rank}]")


def _exact(request: Object, path: str) -> Errors:
    if not request.get("deviceClassName"):
        yield required(f"{path}.deviceClassName")
    yield from _device_selectors(request.get("selectors") or (), f"{path}.selectors")
    mode, count = request.get("allocationMode"), request.get("count")
    if mode not in ("All", "ExactCount"):
        yield supported(f"{path}.allocationMode", mode, ("All", "ExactCount"))
    elif mode == "ExactCount" and isinstance(count, int) and count <= 0:
        yield invalid(f"{path}.count", count, "must be greater than zero")
    elif mode == "All" and count:
        yield invalid(f"{path}.count", count, "must not be specified when allocationMode is 'All'")


def _device_class(obj: Object, old: Object | None) -> Errors:
    selectors = _spec(obj).get("selectors") or ()
    if old is None or selectors != (_spec(old).get("selectors") or ()):
        yield from _device_selectors(selectors, "spec.selectors")


def _device_selectors(selectors: Sequence[Object], path: str) -> Errors:
    """Selectors that no scheduler could judge, with the place in the expression as the language's own compiler shows it."""
    from modelplane.plan.cel import SelectorError, compile_selector

    for position, selector in enumerate(selectors):
        text = str((selector.get("cel") or {}).get("expression") or "")
        where = f"{path}[{position}].cel.expression"
        try:
            compile_selector(text)
        except SelectorError as error:
            shown = []
            for issue in error.issues:
                line = text.split("\n")[issue.line - 1] if issue.line else ""
                place = f"\n | {line}\n | {'.' * (issue.column - 1)}^" if issue.line else ""
                shown.append(f"ERROR: <input>:{issue.line}:{issue.column}: {issue.message}{place}")
            yield invalid(where, text, "compilation failed: " + "\n".join(shown))


def _disruption_budget(obj: Object, old: Object | None) -> Errors:
    spec = _spec(obj)
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        yield invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set")


def _priority_class(obj: Object, old: Object | None) -> Errors:
    for field in ("value", "preemptionPolicy"):
        if old is not None and obj.get(field) != old.get(field):
            yield forbidden(field, "may not be changed in an update.")
    name = (obj.get("metadata") or {}).get("name") or ""
    if name.startswith("system-") and old is None and name not in ("system-node-critical", "system-cluster-critical"):
        yield forbidden("metadata.name", "priority class names with 'system-' prefix are reserved for system use only")


def _autoscaler(obj: Object, old: Object | None) -> Errors:
    spec = _spec(obj)
    most, least = spec.get("maxReplicas") or 0, spec.get("minReplicas")
    if most < 1:
        yield invalid("spec.maxReplicas", most, "must be greater than 0")
    if least is not None and most < least:
        yield invalid("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`")


def _storage_class(obj: Object, old: Object | None) -> Errors:
    if not obj.get("provisioner"):
        yield required("provisioner")
    for field in ("provisioner", "parameters", "volumeBindingMode"):
        if old is not None and obj.get(field) != old.get(field):
            yield forbidden(field, "updates to provisioner, parameters and volumeBindingMode are forbidden.")


_CHECKS: Final[dict[tuple[str, str], Callable[[Object, Object | None], Errors]]] = {
    ("", "ConfigMap"): _data,
    ("", "Pod"): _pod,
    ("", "PodTemplate"): _pod_template,
    ("", "Secret"): _secret,
    ("", "Service"): service,
    ("apps", "DaemonSet"): _daemon_set,
    ("apps", "Deployment"): _deployment,
    ("apps", "ReplicaSet"): _replica_set,
    ("apps", "StatefulSet"): _stateful_set,
    ("autoscaling", "HorizontalPodAutoscaler"): _autoscaler,
    ("batch", "CronJob"): _cron_job,
    ("batch", "Job"): _job,
    ("coordination.k8s.io", "Lease"): _lease,
    ("discovery.k8s.io", "EndpointSlice"): endpoint_slice,
    ("resource.k8s.io", "DeviceClass"): _device_class,
    ("policy", "PodDisruptionBudget"): _disruption_budget,
    (_RBAC, "ClusterRole"): _role,
    (_RBAC, "ClusterRoleBinding"): _role_binding,
    (_RBAC, "Role"): _role,
    (_RBAC, "RoleBinding"): _role_binding,
    ("resource.k8s.io", "ResourceClaim"): _resource_claim,
    ("resource.k8s.io", "ResourceClaimTemplate"): _resource_claim_template,
    ("scheduling.k8s.io", "PriorityClass"): _priority_class,
    ("storage.k8s.io", "StorageClass"): _storage_class,
}


def check_of(group: str, kind: str) -> Check | None:
    """The rules of a kind, None for one that its schema says all about."""
    if (group, kind) == ("apiextensions.k8s.io", "CustomResourceDefinition"):
        return check_definition
    rules = _CHECKS.get((group, kind)) or LEAST.get((group, kind))
    return (lambda new, old: list(rules(new, old))) if rules is not None else None
