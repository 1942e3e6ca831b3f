"""Defaults of built-in kinds that clients rely on: what kube-apiserver fills in and a schema cannot say.

Each function changes the object that it gets; the caller hands it a private copy. Sources: the published API
reference of each kind. Pods and pod templates are in ``pods.py``.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Final

from modelplane.api.meta import Object
from modelplane.server.builtin.crds import defaults as crd_defaults
from modelplane.server.builtin.pods import fill, pod_defaults, template_defaults

_RBAC = "rbac.authorization.k8s.io"


def _ports(ports: list[Object] | None, **defaults: object) -> None:
    for port in ports or ():
        fill(port, protocol="TCP", **defaults)


def _service(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    fill(spec, sessionAffinity="None", type="ClusterIP")
    if spec["sessionAffinity"] == "ClientIP":
        client_ip = spec.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {})
        fill(client_ip, timeoutSeconds=10800)
    for port in spec.get("ports") or ():
        fill(port, protocol="TCP")
        if port.get("targetPort") in (None, "", 0) and "port" in port:
            port["targetPort"] = port["port"]
    if spec["type"] in ("NodePort", "LoadBalancer"):
        fill(spec, externalTrafficPolicy="Cluster")
    if spec["type"] in ("ClusterIP", "NodePort", "LoadBalancer"):
        fill(spec, internalTrafficPolicy="Cluster")
    if spec["type"] == "LoadBalancer":
        fill(spec, allocateLoadBalancerNodePorts=True)
        for entry in ((obj.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ():
            if entry.get("ip"):
                fill(entry, ipMode="VIP")
    fill(obj, status={"loadBalancer": {}})


def _secret(obj: Object) -> None:
    fill(obj, type="Opaque")
    plain = obj.pop("stringData", None)
    if plain:
        data = obj["data"] = obj.get("data") or {}
        data.update({key: base64.b64encode((text or "").encode()).decode() for key, text in plain.items()})


def _namespace(obj: Object) -> None:
    metadata = obj.setdefault("metadata", {})
    if metadata.get("name"):
        labels = metadata["labels"] = metadata.get("labels") or {}
        labels.setdefault("kubernetes.io/metadata.name", metadata["name"])
    fill(obj, spec={}, status={})
    fill(obj["status"], phase="Active")


def _endpoints(obj: Object) -> None:
    for subset in obj.get("subsets") or ():
        _ports(subset.get("ports"))


def _volume(obj: Object) -> None:
    fill(obj.setdefault("spec", {}), persistentVolumeReclaimPolicy="Retain", volumeMode="Filesystem")
    fill(obj.setdefault("status", {}), phase="Pending")


def _claim(obj: Object) -> None:
    fill(obj.setdefault("spec", {}), volumeMode="Filesystem")
    fill(obj.setdefault("status", {}), phase="Pending")


def _with_template(obj: Object) -> Object:
    spec: Object = obj.setdefault("spec", {})
    template_defaults(spec.get("template"))
    fill(obj, status={})
    return spec


def _zeros(obj: Object, *fields: str) -> None:
    """Counts of a status that Go always writes."""
    status = obj.setdefault("status", {})
    for field in fields:
        status.setdefault(field, 0)


def _disruption_budget(obj: Object) -> None:
    _zeros(obj, "currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods")


def _deployment(obj: Object) -> None:
    spec = _with_template(obj)
    fill(spec, replicas=1, revisionHistoryLimit=10, progressDeadlineSeconds=600, strategy={})
    fill(spec["strategy"], type="RollingUpdate")
    if spec["strategy"]["type"] == "RollingUpdate":
        fill(spec["strategy"], rollingUpdate={})
        fill(spec["strategy"]["rollingUpdate"], maxUnavailable="25%", maxSurge="25%")


def _replica_set(obj: Object) -> None:
    fill(_with_template(obj), replicas=1)
    _zeros(obj, "replicas")


def _replication_controller(obj: Object) -> None:
    spec = _with_template(obj)
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if labels:
        fill(spec, selector=dict(labels))
        fill(obj.setdefault("metadata", {}), labels=dict(labels))
    fill(spec, replicas=1)


def _stateful_set(obj: Object) -> None:
    spec = _with_template(obj)
    fill(spec, podManagementPolicy="OrderedReady", replicas=1, revisionHistoryLimit=10, updateStrategy={})
    fill(spec, persistentVolumeClaimRetentionPolicy={})
    fill(spec["persistentVolumeClaimRetentionPolicy"], whenDeleted="Retain", whenScaled="Retain")
    fill(spec["updateStrategy"], type="RollingUpdate")
    if spec["updateStrategy"]["type"] == "RollingUpdate":
        fill(spec["updateStrategy"], rollingUpdate={})
        fill(spec["updateStrategy"]["rollingUpdate"], partition=0)
    for claim in spec.get("volumeClaimTemplates") or ():
        _claim(claim)
    _zeros(obj, "availableReplicas", "replicas")


def _daemon_set(obj: Object) -> None:
    spec = _with_template(obj)
    fill(spec, revisionHistoryLimit=10, updateStrategy={})
    fill(spec["updateStrategy"], type="RollingUpdate")
    if spec["updateStrategy"]["type"] == "RollingUpdate":
        fill(spec["updateStrategy"], rollingUpdate={})
        fill(spec["updateStrategy"]["rollingUpdate"], maxUnavailable=1, maxSurge=0)
    annotations = obj.setdefault("metadata", {}).setdefault("annotations", {})
    annotations.setdefault("deprecated.daemonset.template.generation", "1")
    _zeros(obj, "currentNumberScheduled", "desiredNumberScheduled", "numberMisscheduled", "numberReady")


def _job(obj: Object) -> None:
    spec = _with_template(obj)
    if spec.get("completions") is None and spec.get("parallelism") is None:
        fill(spec, completions=1)
    per_index = spec.get("backoffLimitPerIndex") is not None
    policy = "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed"
    fill(spec, parallelism=1, completionMode="NonIndexed", suspend=False, manualSelector=False)
    fill(spec, backoffLimit=2147483647 if per_index else 6, podReplacementPolicy=policy)
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if labels:
        fill(obj.setdefault("metadata", {}), labels=dict(labels))


def _cron_job(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    fill(spec, concurrencyPolicy="Allow", suspend=False, successfulJobsHistoryLimit=3, failedJobsHistoryLimit=1)
    template = spec.get("jobTemplate") or {}
    template.setdefault("metadata", {})
    template_defaults((template.get("spec") or {}).get("template"))
    fill(obj, status={})


def _binding(obj: Object) -> None:
    fill(obj.setdefault("roleRef", {}), apiGroup=_RBAC)
    for subject in obj.get("subjects") or ():
        if subject.get("kind") in ("User", "Group"):
            fill(subject, apiGroup=_RBAC)


def _storage_class(obj: Object) -> None:
    fill(obj, reclaimPolicy="Delete", volumeBindingMode="Immediate")


def _csi_driver(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    fill(spec, attachRequired=True, podInfoOnMount=False, storageCapacity=False, requiresRepublish=False)
    fill(spec, fsGroupPolicy="ReadWriteOnceWithFSType", volumeLifecycleModes=["Persistent"], seLinuxMount=False)


def _network_policy(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    for rule in (*(spec.get("ingress") or ()), *(spec.get("egress") or ())):
        _ports(rule.get("ports"))
    fill(spec, policyTypes=["Ingress", *(["Egress"] if spec.get("egress") else [])])


def _autoscaler(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    fill(spec, minReplicas=1)
    cpu = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}
    fill(spec, metrics=[{"type": "Resource", "resource": cpu}])


def _autoscaler_v1(obj: Object) -> None:
    fill(obj.setdefault("spec", {}), minReplicas=1, targetCPUUtilizationPercentage=80)


def _priority_class(obj: Object) -> None:
    fill(obj, preemptionPolicy="PreemptLowerPriority")


def _endpoint_slice(obj: Object) -> None:
    _ports(obj.get("ports"), name="")
    for endpoint in obj.get("endpoints") or ():
        fill(endpoint, conditions={})


def _device_requests(spec: Object) -> None:
    for request in (spec.get("devices") or {}).get("requests") or ():
        for exact in (request.get("exactly"), *(request.get("firstAvailable") or ())):
            if exact is None:
                continue
            fill(exact, allocationMode="ExactCount")
            if exact["allocationMode"] == "ExactCount":
                fill(exact, count=1)
            for toleration in exact.get("tolerations") or ():
                fill(toleration, operator="Equal")


def _resource_claim(obj: Object) -> None:
    _device_requests(obj.get("spec") or {})
    fill(obj, status={})


def _resource_claim_template(obj: Object) -> None:
    if "spec" in obj:
        fill(obj["spec"], metadata={})
    _device_requests((obj.get("spec") or {}).get("spec") or {})


def _webhooks(obj: Object) -> None:
    for hook in obj.get("webhooks") or ():
        fill(hook, failurePolicy="Fail", matchPolicy="Equivalent", namespaceSelector={}, objectSelector={})
        fill(hook, timeoutSeconds=10)
        if obj.get("kind") == "MutatingWebhookConfiguration":
            fill(hook, reinvocationPolicy="Never")
        for rule in hook.get("rules") or ():
            fill(rule, scope="*")
        service = (hook.get("clientConfig") or {}).get("service")
        if service:
            fill(service, port=443)


def _ingress(obj: Object) -> None:
    fill(obj, status={"loadBalancer": {}})


def _status(obj: Object) -> None:
    fill(obj, status={})


DEFAULTS: Final[dict[tuple[str, str], Callable[[Object], None]]] = {
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"): crd_defaults,
    ("v1", "Service"): _service,
    ("v1", "Secret"): _secret,
    ("v1", "Namespace"): _namespace,
    ("v1", "Node"): _status,
    ("v1", "Pod"): pod_defaults,
    ("v1", "PodTemplate"): lambda obj: template_defaults(obj.get("template")),
    ("v1", "ReplicationController"): _replication_controller,
    ("v1", "Endpoints"): _endpoints,
    ("v1", "PersistentVolume"): _volume,
    ("v1", "PersistentVolumeClaim"): _claim,
    ("v1", "ResourceQuota"): _status,
    ("apps/v1", "Deployment"): _deployment,
    ("apps/v1", "ReplicaSet"): _replica_set,
    ("apps/v1", "StatefulSet"): _stateful_set,
    ("apps/v1", "DaemonSet"): _daemon_set,
    ("batch/v1", "Job"): _job,
    ("batch/v1", "CronJob"): _cron_job,
    (f"{_RBAC}/v1", "RoleBinding"): _binding,
    (f"{_RBAC}/v1", "ClusterRoleBinding"): _binding,
    ("storage.k8s.io/v1", "StorageClass"): _storage_class,
    ("storage.k8s.io/v1", "CSIDriver"): _csi_driver,
    ("networking.k8s.io/v1", "NetworkPolicy"): _network_policy,
    ("networking.k8s.io/v1", "Ingress"): _ingress,
    ("autoscaling/v2", "HorizontalPodAutoscaler"): _autoscaler,
    ("autoscaling/v1", "HorizontalPodAutoscaler"): _autoscaler_v1,
    ("scheduling.k8s.io/v1", "PriorityClass"): _priority_class,
    ("policy/v1", "PodDisruptionBudget"): _disruption_budget,
    ("discovery.k8s.io/v1", "EndpointSlice"): _endpoint_slice,
    ("resource.k8s.io/v1", "ResourceClaim"): _resource_claim,
    ("resource.k8s.io/v1", "ResourceClaimTemplate"): _resource_claim_template,
    ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration"): _webhooks,
    ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"): _webhooks,
}
