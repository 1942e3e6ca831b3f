"""What a Table says about its columns: mostly what the schema of the kind says about the field that a column shows.

A description that starts with ``@`` is the path of a field in the kind's definition; it is read when a table is first
made, so that the texts are kept once.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from modelplane.api.meta import GVK
from modelplane.server.builtin.definitions import definition
from modelplane.server.builtin.kinds import definition_name

_EVERYWHERE: Final = {
    "Name": "@metadata.name",
    "Age": "@metadata.creationTimestamp",
    "Created At": "@metadata.creationTimestamp",
    "Containers": "Names of each container in the template.",
    "Images": "Images referenced by each container in the template.",
}
_SAME: Final = {
    ("events.k8s.io", "Event"): GVK("", "v1", "Event"),
    ("autoscaling", "HorizontalPodAutoscaler"): GVK("autoscaling", "v2", "HorizontalPodAutoscaler"),
}
"""Kinds whose columns are described by another version of them."""

_COLUMNS: Final[dict[tuple[str, str], dict[str, str]]] = {
    ("", "ConfigMap"): {
        "Data": "@data",
    },
    ("", "Endpoints"): {
        "Endpoints": "@subsets",
    },
    ("", "Event"): {
        "Last Seen": "@lastTimestamp",
        "Type": "@type",
        "Reason": "@reason",
        "Object": "@involvedObject",
        "Subobject": "@involvedObject.fieldPath",
        "Source": "@source",
        "Message": "@message",
        "First Seen": "@firstTimestamp",
        "Count": "@count",
    },
    ("", "Namespace"): {
        "Status": "The status of the namespace",
    },
    ("", "Node"): {
        "Status": "The status of the node",
        "Roles": "The roles of the node",
        "Version": "@status.nodeInfo.kubeletVersion",
        "Internal-IP": "@status.addresses",
        "External-IP": "@status.addresses",
        "OS-Image": "@status.nodeInfo.osImage",
        "Kernel-Version": "@status.nodeInfo.kernelVersion",
        "Container-Runtime": "@status.nodeInfo.containerRuntimeVersion",
    },
    ("", "PersistentVolume"): {
        "Capacity": "@spec.capacity",
        "Access Modes": "@spec.accessModes",
        "Reclaim Policy": "@spec.persistentVolumeReclaimPolicy",
        "Status": "@status.phase",
        "Claim": "@spec.claimRef",
        "StorageClass": "StorageClass of the pv",
        "VolumeAttributesClass": "VolumeAttributesClass of the pv",
        "Reason": "@status.reason",
        "VolumeMode": "@spec.volumeMode",
    },
    ("", "PersistentVolumeClaim"): {
        "Status": "@status.phase",
        "Volume": "@spec.volumeName",
        "Capacity": "@status.capacity",
        "Access Modes": "@status.accessModes",
        "StorageClass": "StorageClass of the pvc",
        "VolumeAttributesClass": "VolumeAttributesClass of the pvc",
        "VolumeMode": "@spec.volumeMode",
    },
    ("", "Pod"): {
        "Ready": "The aggregate readiness state of this pod for accepting traffic.",
        "Status": "The aggregate status of the containers in this pod.",
        "Restarts": (
            "The number of times the containers in this pod have been restarted and when the last "
            "container in this pod has restarted."
        ),
        "IP": "@status.podIP",
        "Node": "@spec.nodeName",
        "Nominated Node": "@status.nominatedNodeName",
        "Readiness Gates": "@spec.readinessGates",
    },
    ("", "PodTemplate"): {
        "Pod Labels": "The labels for the pod template.",
    },
    ("", "ReplicationController"): {
        "Desired": "@spec.replicas",
        "Current": "@status.replicas",
        "Ready": "@status.readyReplicas",
        "Selector": "@spec.selector",
    },
    ("", "ResourceQuota"): {
        "Request": "Request represents a minimum amount of cpu/memory that a container may consume.",
        "Limit": (
            "Limits control the maximum amount of cpu/memory that a container may use independent "
            "of contention on the node."
        ),
    },
    ("", "Secret"): {
        "Type": "@type",
        "Data": "@data",
    },
    ("", "Service"): {
        "Type": "@spec.type",
        "Cluster-IP": "@spec.clusterIP",
        "External-IP": "@spec.externalIPs",
        "Port(s)": "@spec.ports",
        "Selector": "@spec.selector",
    },
    ("apps", "ControllerRevision"): {
        "Controller": "Controller of the object",
        "Revision": "@revision",
    },
    ("apps", "DaemonSet"): {
        "Desired": "@status.desiredNumberScheduled",
        "Current": "@status.currentNumberScheduled",
        "Ready": "@status.numberReady",
        "Up-to-date": "@status.updatedNumberScheduled",
        "Available": "@status.numberAvailable",
        "Node Selector": "@spec.template.spec.nodeSelector",
        "Selector": "@spec.selector",
    },
    ("apps", "Deployment"): {
        "Ready": "Number of the pod with ready state",
        "Up-to-date": "@status.updatedReplicas",
        "Available": "@status.availableReplicas",
        "Selector": "@spec.selector",
    },
    ("apps", "ReplicaSet"): {
        "Desired": "@spec.replicas",
        "Current": "@status.replicas",
        "Ready": "@status.readyReplicas",
        "Selector": "@spec.selector",
    },
    ("apps", "StatefulSet"): {
        "Ready": "Number of the pod with ready state",
    },
    ("batch", "CronJob"): {
        "Schedule": "@spec.schedule",
        "Timezone": "@spec.timeZone",
        "Suspend": "@spec.suspend",
        "Active": "@status.active",
        "Last Schedule": "@status.lastScheduleTime",
        "Selector": "@spec.jobTemplate.spec.selector",
    },
    ("batch", "Job"): {
        "Status": "Status of the job.",
        "Completions": "@status.succeeded",
        "Duration": "Time required to complete the job.",
        "Selector": "@spec.selector",
    },
    ("discovery.k8s.io", "EndpointSlice"): {
        "AddressType": "@addressType",
        "Ports": "@ports",
        "Endpoints": "@endpoints",
    },
    ("resource.k8s.io", "ResourceClaim"): {
        "State": "A summary of the current state (allocated, pending, reserved, etc.).",
    },
    ("resource.k8s.io", "ResourceSlice"): {
        "Node": "@spec.nodeName",
        "Driver": "@spec.driver",
        "Pool": (
            "Name is used to identify the pool. For node-local devices, this is often the node "
            "name, but this is not required.\n\nIt must not be longer than 253 characters and must "
            "consist of one or more DNS sub-domains separated by slashes. This field is immutable."
        ),
    },
    ("coordination.k8s.io", "Lease"): {
        "Holder": "@spec.holderIdentity",
    },
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): {
        "Role": (
            "RoleRef can only reference a ClusterRole in the global namespace. If the RoleRef "
            "cannot be resolved, the Authorizer must return an error."
        ),
        "Users": "Users in the clusterRoleBinding",
        "Groups": "Groups in the clusterRoleBinding",
        "ServiceAccounts": "ServiceAccounts in the clusterRoleBinding",
    },
    ("rbac.authorization.k8s.io", "RoleBinding"): {
        "Role": (
            "RoleRef can reference a Role in the current namespace or a ClusterRole in the global "
            "namespace. If the RoleRef cannot be resolved, the Authorizer must return an error."
        ),
        "Users": "Users in the roleBinding",
        "Groups": "Groups in the roleBinding",
        "ServiceAccounts": "ServiceAccounts in the roleBinding",
    },
    ("storage.k8s.io", "CSIDriver"): {
        "AttachRequired": "@spec.attachRequired",
        "PodInfoOnMount": "@spec.podInfoOnMount",
        "StorageCapacity": "@spec.storageCapacity",
        "TokenRequests": "@spec.tokenRequests",
        "RequiresRepublish": "@spec.requiresRepublish",
        "Modes": "@spec.volumeLifecycleModes",
    },
    ("storage.k8s.io", "CSINode"): {
        "Drivers": "Drivers indicates the number of CSI drivers registered on the node",
    },
    ("storage.k8s.io", "StorageClass"): {
        "Provisioner": "@provisioner",
        "ReclaimPolicy": "@reclaimPolicy",
        "VolumeBindingMode": "@volumeBindingMode",
        "AllowVolumeExpansion": "@allowVolumeExpansion",
    },
    ("storage.k8s.io", "VolumeAttachment"): {
        "Attacher": "@spec.attacher",
        "PV": "@spec.source.persistentVolumeName",
        "Node": "@spec.nodeName",
        "Attached": "@status.attached",
    },
    ("policy", "PodDisruptionBudget"): {
        "Min Available": "The minimum number of pods that must be available.",
        "Max Unavailable": "The maximum number of pods that may be unavailable.",
        "Allowed Disruptions": "Calculated number of pods that may be disrupted at this time.",
    },
    ("networking.k8s.io", "Ingress"): {
        "Class": ("The name of the IngressClass resource that should be used for additional configuration"),
        "Hosts": "Hosts that incoming requests are matched against before the ingress rule",
        "Address": "Address is a list containing ingress points for the load-balancer",
        "Ports": "Ports of TLS configurations that open",
    },
    ("networking.k8s.io", "IngressClass"): {
        "Controller": "Controller that is responsible for handling this class",
        "Parameters": "A reference to a resource with additional parameters",
    },
    ("networking.k8s.io", "NetworkPolicy"): {
        "Pod-Selector": "@spec.podSelector",
    },
    ("autoscaling", "Scale"): {
        "Desired": "@spec.replicas",
        "Available": "@status.replicas",
    },
    ("autoscaling", "HorizontalPodAutoscaler"): {
        "Reference": "@spec.scaleTargetRef",
        "Targets": "@spec.metrics",
        "MinPods": "@spec.minReplicas",
        "MaxPods": "@spec.maxReplicas",
        "Replicas": "@status.currentReplicas",
    },
    ("scheduling.k8s.io", "PriorityClass"): {
        "Value": "@value",
        "Global-Default": "@globalDefault",
        "PreemptionPolicy": "@preemptionPolicy",
    },
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): {
        "Webhooks": "Webhooks indicates the number of webhooks registered in this configuration",
    },
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): {
        "Webhooks": "Webhooks indicates the number of webhooks registered in this configuration",
    },
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"): {
        "Validations": "Validations indicates the number of validation rules defined in this configuration",
        "ParamKind": "ParamKind specifies the kind of resources used to parameterize this policy",
    },
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"): {
        "PolicyName": "PolicyName indicates the policy definition which the policy binding binded to",
        "ParamRef": "ParamRef indicates the param resource which sets the configuration param",
    },
}


def described(gvk: GVK, column: str) -> str:
    """The description of a column of a built-in kind; empty where there is none."""
    gvk = _SAME.get((gvk.group, gvk.kind), gvk)
    text = {**_EVERYWHERE, **_COLUMNS.get((gvk.group, gvk.kind), {})}.get(column, "")
    return text if text[:1] != "@" else _said(definition_name(gvk), tuple(text[1:].split(".")))


@cache
def _said(name: str, path: tuple[str, ...]) -> str:
    """What a definition says about one of its fields."""
    found = definition(name)["properties"][path[0]]
    if len(path) == 1:
        return str(found.get("description", ""))
    refs = [found, found.get("items") or {}, *found.get("allOf", ())]
    below = next(ref["$ref"] for ref in refs if "$ref" in ref)
    return _said(below.rpartition("/")[2], path[1:])
