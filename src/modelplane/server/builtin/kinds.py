"""The table of built-in kinds that the server knows, in the words of discovery.

One row per kind and version; a kind is added here, then ``scripts/generate_builtin.py`` brings its schema.
"""

from __future__ import annotations

from typing import Final

import msgspec

from modelplane.api.meta import GVK
from modelplane.server.resource import ALL_VERBS, SCALE, STATUS_VERBS, ScalePaths, Subresource

REVIEW: Final = ("create",)
_STATUS: Final = ("status",)
_WORKLOAD: Final = ("scale", "status")
_RETURNED: Final = frozenset({
    "csidrivers", "csinodes", "deviceclasses", "persistentvolumeclaims", "persistentvolumes", "pods", "podtemplates",
    "resourceclaims", "resourceclaimtemplates", "resourcequotas", "resourceslices", "serviceaccounts", "services",
    "storageclasses", "volumeattachments",
})  # fmt: skip


class Kind(msgspec.Struct, frozen=True):
    """One row."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    selectable: tuple[str, ...] = ()
    generation: bool = True
    selector_path: str = ".status.selector"
    storage: bool = True
    deprecation: str = ""

    @property
    def gvk(self) -> GVK:
        return GVK(self.group, self.version, self.kind)

    @property
    def singular(self) -> str:
        return self.kind.lower()

    @property
    def returns_deleted(self) -> bool:
        """Whether a delete answers with the object instead of a Status."""
        return self.plural in _RETURNED

    @property
    def definition(self) -> str:
        return definition_name(self.gvk)

    @property
    def scale(self) -> ScalePaths | None:
        return ScalePaths(selector=self.selector_path) if "scale" in self.subresources else None


def definition_name(gvk: GVK) -> str:
    """The name of a kind's definition in OpenAPI."""
    if gvk.group == "apiextensions.k8s.io":
        return f"io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.{gvk.version}.{gvk.kind}"
    return f"io.k8s.api.{gvk.group.partition('.')[0] or 'core'}.{gvk.version}.{gvk.kind}"


def _core(kind: str, plural: str, short: str = "", **more: object) -> Kind:
    return msgspec.structs.replace(Kind("", "v1", kind, plural, short_names=tuple(short.split())), **more)


def _of(group: str, version: str, kind: str, plural: str, short: str = "", **more: object) -> Kind:
    return msgspec.structs.replace(Kind(group, version, kind, plural, short_names=tuple(short.split())), **more)


_ALL: Final = ("all",)
_EVENT_FIELDS: Final = (
    "involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid",
    "involvedObject.apiVersion", "involvedObject.resourceVersion", "involvedObject.fieldPath",
    "reason", "reportingComponent", "source", "type",
)  # fmt: skip
_NEW_EVENT_FIELDS: Final = (
    "regarding.kind", "regarding.namespace", "regarding.name", "regarding.uid", "reason", "reportingController", "type",
)  # fmt: skip
_RBAC: Final = "rbac.authorization.k8s.io"
_DRA: Final = "resource.k8s.io"
_STORAGE: Final = "storage.k8s.io"
_ADMISSION: Final = "admissionregistration.k8s.io"

KINDS: Final = (
    _core("Binding", "bindings", verbs=REVIEW),
    _core("ConfigMap", "configmaps", "cm", generation=False),
    _core("Endpoints", "endpoints", "ep", generation=False,
          deprecation="v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"),
    _core("Event", "events", "ev", selectable=_EVENT_FIELDS, generation=False),
    _core("LimitRange", "limitranges", "limits", generation=False),
    _core("Namespace", "namespaces", "ns", namespaced=False, subresources=("finalize", "status"),
          verbs=tuple(verb for verb in ALL_VERBS if verb != "deletecollection"),
          selectable=("status.phase",), generation=False),
    _core("Node", "nodes", "no", namespaced=False, subresources=("proxy", "status"),
          selectable=("spec.unschedulable",), generation=False),
    _core("PersistentVolume", "persistentvolumes", "pv", namespaced=False, subresources=_STATUS, generation=False),
    _core("PersistentVolumeClaim", "persistentvolumeclaims", "pvc", subresources=_STATUS, generation=False),
    _core("Pod", "pods", "po", categories=_ALL,
          subresources=("attach", "binding", "ephemeralcontainers", "eviction", "exec", "log", "portforward", "proxy",
                        "resize", "status"),
          selectable=("spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName",
                      "spec.hostNetwork", "status.phase", "status.podIP", "status.nominatedNodeName")),
    _core("PodTemplate", "podtemplates"),
    _core("ReplicationController", "replicationcontrollers", "rc", categories=_ALL, subresources=_WORKLOAD,
          selectable=("status.replicas",), selector_path=".spec.selector"),
    _core("ResourceQuota", "resourcequotas", "quota", subresources=_STATUS, generation=False),
    _core("Secret", "secrets", selectable=("type",), generation=False),
    _core("Service", "services", "svc", categories=_ALL, subresources=("proxy", "status"),
          selectable=("spec.clusterIP", "spec.type"), generation=False),
    _core("ServiceAccount", "serviceaccounts", "sa", subresources=("token",), generation=False),
    _of("apps", "v1", "ControllerRevision", "controllerrevisions", generation=False),
    _of("apps", "v1", "DaemonSet", "daemonsets", "ds", categories=_ALL, subresources=_STATUS),
    _of("apps", "v1", "Deployment", "deployments", "deploy", categories=_ALL, subresources=_WORKLOAD,
        selector_path=".spec.selector"),
    _of("apps", "v1", "ReplicaSet", "replicasets", "rs", categories=_ALL, subresources=_WORKLOAD,
        selectable=("status.replicas",), selector_path=".spec.selector"),
    _of("apps", "v1", "StatefulSet", "statefulsets", "sts", categories=_ALL, subresources=_WORKLOAD,
        selector_path=".spec.selector"),
    _of("batch", "v1", "CronJob", "cronjobs", "cj", categories=_ALL, subresources=_STATUS),
    _of("batch", "v1", "Job", "jobs", categories=_ALL, subresources=_STATUS, selectable=("status.successful",)),
    _of("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices"),
    _of(_DRA, "v1", "DeviceClass", "deviceclasses", namespaced=False),
    _of(_DRA, "v1", "ResourceClaim", "resourceclaims", subresources=_STATUS, generation=False),
    _of(_DRA, "v1", "ResourceClaimTemplate", "resourceclaimtemplates", generation=False),
    _of(_DRA, "v1", "ResourceSlice", "resourceslices", namespaced=False,
        selectable=("spec.nodeName", "spec.driver")),
    _of("coordination.k8s.io", "v1", "Lease", "leases", generation=False),
    _of(_RBAC, "v1", "ClusterRole", "clusterroles", namespaced=False, generation=False),
    _of(_RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False, generation=False),
    _of(_RBAC, "v1", "Role", "roles", generation=False),
    _of(_RBAC, "v1", "RoleBinding", "rolebindings", generation=False),
    _of(_STORAGE, "v1", "CSIDriver", "csidrivers", namespaced=False),
    _of(_STORAGE, "v1", "CSINode", "csinodes", namespaced=False, generation=False),
    _of(_STORAGE, "v1", "CSIStorageCapacity", "csistoragecapacities", generation=False),
    _of(_STORAGE, "v1", "StorageClass", "storageclasses", "sc", namespaced=False, generation=False),
    _of(_STORAGE, "v1", "VolumeAttachment", "volumeattachments", namespaced=False, subresources=_STATUS,
        generation=False),
    _of("events.k8s.io", "v1", "Event", "events", "ev", selectable=_NEW_EVENT_FIELDS, generation=False,
        storage=False),
    _of("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", "pdb", subresources=_STATUS),
    _of("networking.k8s.io", "v1", "Ingress", "ingresses", "ing", subresources=_STATUS),
    _of("networking.k8s.io", "v1", "IngressClass", "ingressclasses", namespaced=False),
    _of("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", "netpol"),
    _of("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", "hpa", categories=_ALL,
        subresources=_STATUS, generation=False),
    _of("autoscaling", "v1", "HorizontalPodAutoscaler", "horizontalpodautoscalers", "hpa", categories=_ALL,
        subresources=_STATUS, storage=False, generation=False),
    _of("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", "pc", namespaced=False),
    _of("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", "crd crds",
        namespaced=False, categories=("api-extensions",), subresources=_STATUS),
    _of(_ADMISSION, "v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", namespaced=False,
        categories=("api-extensions",)),
    _of(_ADMISSION, "v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", namespaced=False,
        categories=("api-extensions",)),
    _of(_ADMISSION, "v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", namespaced=False,
        categories=("api-extensions",), subresources=_STATUS),
    _of(_ADMISSION, "v1", "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", namespaced=False,
        categories=("api-extensions",)),
    _of("authentication.k8s.io", "v1", "SelfSubjectReview", "selfsubjectreviews", namespaced=False, verbs=REVIEW),
    _of("authentication.k8s.io", "v1", "TokenReview", "tokenreviews", namespaced=False, verbs=REVIEW),
    _of("authorization.k8s.io", "v1", "LocalSubjectAccessReview", "localsubjectaccessreviews", verbs=REVIEW),
    _of("authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", namespaced=False,
        verbs=REVIEW),
    _of("authorization.k8s.io", "v1", "SelfSubjectRulesReview", "selfsubjectrulesreviews", namespaced=False,
        verbs=REVIEW),
    _of("authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews", namespaced=False, verbs=REVIEW),
)  # fmt: skip

_FOREIGN_SUBRESOURCES: Final = {
    "scale": Subresource(SCALE, STATUS_VERBS),
    "eviction": Subresource(GVK("policy", "v1", "Eviction"), ("create",)),
    "binding": Subresource(GVK("", "v1", "Binding"), ("create",)),
    "token": Subresource(GVK("authentication.k8s.io", "v1", "TokenRequest"), ("create",)),
    "attach": Subresource(GVK("", "v1", "PodAttachOptions"), ("create", "get")),
    "exec": Subresource(GVK("", "v1", "PodExecOptions"), ("create", "get")),
    "portforward": Subresource(GVK("", "v1", "PodPortForwardOptions"), ("create", "get")),
}
_OWN_VERBS: Final = {"finalize": ("update",), "log": ("get",)}
_PROXY_VERBS: Final = ("create", "delete", "get", "patch", "update")

SUBRESOURCE_KINDS: Final = (
    SCALE,
    GVK("policy", "v1", "Eviction"),
    GVK("authentication.k8s.io", "v1", "TokenRequest"),
)
"""Kinds that exist only as bodies below other objects; they have schemas all the same."""


def subresources(kind: Kind) -> dict[str, Subresource]:
    """The paths below an object of this kind."""
    own = {name: Subresource(kind.gvk, _OWN_VERBS.get(name, STATUS_VERBS)) for name in kind.subresources}
    found = {name: _FOREIGN_SUBRESOURCES.get(name, below) for name, below in own.items()}
    if "proxy" in found:
        found["proxy"] = Subresource(GVK("", "v1", f"{kind.kind}ProxyOptions"), _PROXY_VERBS)
    return found
