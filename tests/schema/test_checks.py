"""Rules of built-in kinds: each refusal with its sentence, and that ordinary objects pass."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from modelplane.api.meta import GVK, Object
from modelplane.server.builtin import builtin_schema

POD_SPEC = {
    "containers": [
        {
            "name": "engine",
            "image": "vllm:1",
            "ports": [{"containerPort": 8000, "name": "http"}],
            "volumeMounts": [{"name": "cache", "mountPath": "/cache"}],
            "resources": {
                "limits": {"nvidia.com/gpu": "2", "cpu": "2"},
                "requests": {"cpu": "500m"},
                "claims": [{"name": "gpu"}],
            },
            "readinessProbe": {"httpGet": {"port": "http"}},
        }
    ],
    "volumes": [{"name": "cache"}],
    "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpus"}],
    "tolerations": [{"operator": "Exists"}],
}
LABELS = {"app": "a"}
TEMPLATE = {"metadata": {"labels": LABELS}, "spec": POD_SPEC}
SPECS: dict[str, Any] = {
    "v1/Pod": POD_SPEC,
    "apps/v1/Deployment": {"selector": {"matchLabels": LABELS}, "template": TEMPLATE},
    "apps/v1/ReplicaSet": {"selector": {"matchLabels": LABELS}, "template": TEMPLATE},
    "apps/v1/DaemonSet": {"selector": {"matchLabels": LABELS}, "template": TEMPLATE},
    "apps/v1/StatefulSet": {"selector": {"matchLabels": LABELS}, "template": TEMPLATE, "serviceName": "s"},
    "batch/v1/Job": {"template": {"spec": {**POD_SPEC, "restartPolicy": "Never"}}},
    "batch/v1/CronJob": {
        "schedule": "*/5 * * * *",
        "jobTemplate": {"spec": {"template": {"spec": {**POD_SPEC, "restartPolicy": "OnFailure"}}}},
    },
    "v1/Service": {"selector": LABELS, "ports": [{"port": 80, "name": "http"}]},
    "coordination.k8s.io/v1/Lease": {"leaseDurationSeconds": 10, "holderIdentity": "me"},
    "resource.k8s.io/v1/ResourceClaim": {
        "devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}
    },
    "policy/v1/PodDisruptionBudget": {"minAvailable": 1, "selector": {"matchLabels": LABELS}},
    "autoscaling/v2/HorizontalPodAutoscaler": {
        "scaleTargetRef": {"kind": "Deployment", "name": "a"},
        "maxReplicas": 3,
    },
}
OTHERS: dict[str, Any] = {
    "v1/ConfigMap": {"data": {"a.b_c-D": ""}},
    "v1/Secret": {"data": {"token": "YQ=="}},
    "rbac.authorization.k8s.io/v1/Role": {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]},
    "rbac.authorization.k8s.io/v1/RoleBinding": {
        "roleRef": {"kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "s", "namespace": "n"}],
    },
    "discovery.k8s.io/v1/EndpointSlice": {"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}]},
    "scheduling.k8s.io/v1/PriorityClass": {"value": 5},
    "storage.k8s.io/v1/StorageClass": {"provisioner": "example.com/disk"},
}


def made(what: str) -> Object:
    version, _, kind = what.rpartition("/")
    rest = {"spec": SPECS[what]} if what in SPECS else OTHERS[what]
    return copy.deepcopy({"apiVersion": version, "kind": kind, "metadata": {"name": "a", "namespace": "n"}, **rest})


def told(what: str, change: Callable[[Any], object] | None = None, *, update: bool = False) -> list[str]:
    obj = made(what)
    schema = builtin_schema(GVK.of(obj))
    old = schema.default(obj) if update else None
    if change is not None:
        change(obj)
    return [str(error) for error in schema.validate(schema.default(obj), old)]


@pytest.mark.parametrize("what", [*SPECS, *OTHERS])
def test_an_ordinary_object_passes_when_it_is_created_and_when_it_is_updated(what: str) -> None:
    assert told(what) == []
    assert told(what, update=True) == []


def container(pod: Any) -> Any:
    return pod["spec"]["containers"][0]


BAD_PODS: dict[str, tuple[Callable[[Any], object], str]] = {
    "no containers": (lambda p: p["spec"].update(containers=[]), "spec.containers: Required value"),
    "no image": (lambda p: container(p).pop("image"), "spec.containers[0].image: Required value"),
    "no name": (lambda p: container(p).pop("name"), "spec.containers[0].name: Required value"),
    "bad name": (
        lambda p: container(p).update(name="Engine"),
        'spec.containers[0].name: Invalid value: "Engine": a lowercase RFC 1123 label must consist of',
    ),
    "same name twice": (
        lambda p: p["spec"].update(initContainers=[{"name": "engine", "image": "i"}]),
        'spec.containers[0].name: Duplicate value: "engine"',
    ),
    "port out of range": (
        lambda p: container(p)["ports"][0].update(containerPort=70000),
        "spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
    ),
    "port name": (
        lambda p: container(p)["ports"][0].update(name="a-very-long-port-name"),
        'spec.containers[0].ports[0].name: Invalid value: "a-very-long-port-name": must be no more than 15 characters',
    ),
    "unknown volume": (
        lambda p: container(p)["volumeMounts"][0].update(name="gone"),
        'spec.containers[0].volumeMounts[0].name: Not found: "gone"',
    ),
    "mounted twice": (
        lambda p: container(p)["volumeMounts"].append({"name": "cache", "mountPath": "/cache"}),
        'spec.containers[0].volumeMounts[1].mountPath: Invalid value: "/cache": must be unique',
    ),
    "two sources": (
        lambda p: p["spec"]["volumes"][0].update(emptyDir={}, hostPath={"path": "/x"}),
        "spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type",
    ),
    "more than the limit": (
        lambda p: container(p)["resources"]["requests"].update(cpu="3"),
        'spec.containers[0].resources.requests: Invalid value: "3": must be less than or equal to cpu limit of 2',
    ),
    "devices do not overcommit": (
        lambda p: container(p)["resources"]["requests"].update({"nvidia.com/gpu": "1"}),
        'spec.containers[0].resources.requests: Invalid value: "1": must be equal to nvidia.com/gpu limit of 2',
    ),
    "negative": (
        lambda p: container(p)["resources"]["requests"].update(cpu="-1"),
        'spec.containers[0].resources.requests[cpu]: Invalid value: "-1": must be greater than or equal to 0',
    ),
    "unknown claim": (
        lambda p: p["spec"].update(resourceClaims=[]),
        'spec.containers[0].resources.claims[0].name: Not found: "gpu"',
    ),
    "claim without source": (
        lambda p: p["spec"]["resourceClaims"][0].pop("resourceClaimTemplateName"),
        'spec.resourceClaims[0]: Invalid value: {"name":"gpu"}: must specify one of: '
        "`resourceClaimName`, `resourceClaimTemplateName`",
    ),
    "probe without handler": (
        lambda p: container(p).update(livenessProbe={}),
        "spec.containers[0].livenessProbe: Required value: must specify a handler type",
    ),
    "startup succeeds once": (
        lambda p: container(p).update(startupProbe={"tcpSocket": {"port": 1}, "successThreshold": 2}),
        "spec.containers[0].startupProbe.successThreshold: Invalid value: 2: must be 1",
    ),
    "restart policy": (
        lambda p: p["spec"].update(restartPolicy="Sometimes"),
        'spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "Never", "OnFailure"',
    ),
    "toleration": (
        lambda p: p["spec"].update(tolerations=[{"key": "a", "effect": "NoSchedule", "tolerationSeconds": 5}]),
        "spec.tolerations[0].effect: Invalid value: \"NoSchedule\": effect must be 'NoExecute' when",
    ),
}


@pytest.mark.parametrize(("change", "message"), BAD_PODS.values(), ids=BAD_PODS)
def test_a_bad_pod_is_told_where(change: Callable[[Any], object], message: str) -> None:
    (found,) = told("v1/Pod", change)
    assert found.startswith(message)


SPEC = "spec"
BAD: dict[str, tuple[str, Callable[[Any], object], str]] = {
    "selector misses": (
        "apps/v1/Deployment",
        lambda o: o[SPEC].update(selector={"matchLabels": {"app": "other"}}),
        'spec.template.metadata.labels: Invalid value: {"app":"a"}: `selector` does not match template `labels`',
    ),
    "empty selector": (
        "apps/v1/ReplicaSet",
        lambda o: o[SPEC].update(selector={}),
        "spec.selector: Invalid value: {}: empty selector is invalid for replicaset",
    ),
    "negative replicas": (
        "apps/v1/Deployment",
        lambda o: o[SPEC].update(replicas=-1),
        "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
    ),
    "template restarts": (
        "apps/v1/Deployment",
        lambda o: o[SPEC]["template"]["spec"].update(restartPolicy="Never"),
        'spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"',
    ),
    "no progress": (
        "apps/v1/Deployment",
        lambda o: o[SPEC].update(strategy={"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}),
        "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0",
    ),
    "recreate rolls": (
        "apps/v1/Deployment",
        lambda o: o[SPEC].update(strategy={"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}),
        "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'",
    ),
    "job restarts": (
        "batch/v1/Job",
        lambda o: o[SPEC]["template"]["spec"].update(restartPolicy="Always"),
        'spec.template.spec.restartPolicy: Unsupported value: "Always": supported values: "OnFailure", "Never"',
    ),
    "schedule": (
        "batch/v1/CronJob",
        lambda o: o[SPEC].update(schedule="* *"),
        'spec.schedule: Invalid value: "* *": expected exactly 5 fields, found 2: [* *]',
    ),
    "service port": (
        "v1/Service",
        lambda o: o[SPEC]["ports"][0].update(port=0, targetPort=1),
        "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
    ),
    "service type": (
        "v1/Service",
        lambda o: o[SPEC].update(type="Magic"),
        'spec.type: Unsupported value: "Magic": supported values: "ClusterIP", "ExternalName", "LoadBalancer", "NodePort"',
    ),
    "config key": (
        "v1/ConfigMap",
        lambda o: o["data"].update({"a b": ""}),
        'data[a b]: Invalid value: "a b": a valid config key must consist of',
    ),
    "no verbs": (
        "rbac.authorization.k8s.io/v1/Role",
        lambda o: o["rules"][0].update(verbs=[]),
        "rules[0].verbs: Required value: verbs must contain at least one value",
    ),
    "subject": (
        "rbac.authorization.k8s.io/v1/RoleBinding",
        lambda o: o["subjects"][1].pop("namespace"),
        "subjects[1].namespace: Required value",
    ),
    "slice": (
        "discovery.k8s.io/v1/EndpointSlice",
        lambda o: o.update(addressType="IPX"),
        'addressType: Unsupported value: "IPX": supported values: "FQDN", "IPv4", "IPv6"',
    ),
    "slice of names without a domain": (
        "discovery.k8s.io/v1/EndpointSlice",
        lambda o: o.update(addressType="FQDN", endpoints=[{"addresses": ["localhost"]}]),
        'endpoints[0].addresses[0]: Invalid value: "localhost": should be a domain with at least two segments',
    ),
    "slice of no names": (
        "discovery.k8s.io/v1/EndpointSlice",
        lambda o: o.update(addressType="FQDN", endpoints=[{"addresses": ["a_b.example.com"]}]),
        'endpoints[0].addresses[0]: Invalid value: "a_b.example.com": a lowercase RFC 1123 subdomain must consist',
    ),
    "device class": (
        "resource.k8s.io/v1/ResourceClaim",
        lambda o: o[SPEC]["devices"]["requests"][0]["exactly"].pop("deviceClassName"),
        "spec.devices.requests[0].exactly.deviceClassName: Required value",
    ),
    "budget": (
        "policy/v1/PodDisruptionBudget",
        lambda o: o[SPEC].update(maxUnavailable=1),
        'spec: Invalid value: {"minAvailable":1,',
    ),
    "autoscaler": (
        "autoscaling/v2/HorizontalPodAutoscaler",
        lambda o: o[SPEC].update(minReplicas=5),
        "spec.maxReplicas: Invalid value: 3: must be greater than or equal to `minReplicas`",
    ),
}


@pytest.mark.parametrize(("what", "change", "message"), BAD.values(), ids=BAD)
def test_a_bad_object_is_told_where(what: str, change: Callable[[Any], object], message: str) -> None:
    (found,) = told(what, change)
    assert found.startswith(message)


def test_a_missing_selector_selects_nothing_and_so_not_the_template_either() -> None:
    assert told("apps/v1/Deployment", lambda o: o[SPEC].pop("selector")) == [
        "spec.selector: Required value",
        'spec.template.metadata.labels: Invalid value: {"app":"a"}: `selector` does not match template `labels`',
    ]


FIXED: dict[str, tuple[str, Callable[[Any], object], str]] = {
    "selector": (
        "apps/v1/Deployment",
        lambda o: (
            o[SPEC].update(selector={"matchLabels": {"b": "c"}}),
            o[SPEC]["template"]["metadata"]["labels"].update(b="c"),
        ),
        'spec.selector: Invalid value: {"matchLabels":{"b":"c"}}: field is immutable',
    ),
    "job template": (
        "batch/v1/Job",
        lambda o: o[SPEC]["template"]["spec"]["containers"][0].update(image="other"),
        "spec.template: Invalid value: {",
    ),
    "stateful set": (
        "apps/v1/StatefulSet",
        lambda o: o[SPEC].update(serviceName="t"),
        "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', ",
    ),
    "claim": (
        "resource.k8s.io/v1/ResourceClaim",
        lambda o: o[SPEC]["devices"]["requests"][0]["exactly"].update(count=2),
        "spec: Invalid value: {",
    ),
    "role": (
        "rbac.authorization.k8s.io/v1/RoleBinding",
        lambda o: o["roleRef"].update(name="edit"),
        "roleRef: Invalid value: {",
    ),
    "priority": (
        "scheduling.k8s.io/v1/PriorityClass",
        lambda o: o.update(value=6),
        "value: Forbidden: may not be changed in an update.",
    ),
}


@pytest.mark.parametrize(("what", "change", "message"), FIXED.values(), ids=FIXED)
def test_what_may_not_change_is_held(what: str, change: Callable[[Any], object], message: str) -> None:
    (found,) = told(what, change, update=True)
    assert found.startswith(message)
