"""What built-in kinds do besides being stored: phases, addresses, grace periods, immutable fields.

A behaviour is looked up by the stored resource; kinds without one are stored as they are.
"""

from __future__ import annotations

from typing import Final

from modelplane.server.behaviours.behaviour import Behaviour
from modelplane.server.behaviours.core import (
    Autoscalers,
    ConfigMaps,
    Events,
    Jobs,
    Namespaces,
    Nodes,
    PersistentVolumeClaims,
    PersistentVolumes,
    Secrets,
)
from modelplane.server.behaviours.definitions import Definitions
from modelplane.server.behaviours.pods import Pods
from modelplane.server.behaviours.services import Services

__all__ = ["Behaviour", "behaviour_of"]

_PLAIN: Final = Behaviour()
_ALL_METADATA: Final = ("labels", "annotations", "finalizers", "ownerReferences")
_ROLES: Final = ("clusterrolebindings", "clusterroles", "rolebindings", "roles")
_UNENFORCED: Final = {
    "limitranges": "this API server does not apply their defaults and limits",
    "resourcequotas": "this API server does not enforce quotas",
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": "this API server does not call webhooks",
    "validatingwebhookconfigurations.admissionregistration.k8s.io": "this API server does not call webhooks",
    "validatingadmissionpolicies.admissionregistration.k8s.io": "this API server does not run admission policies",
    "validatingadmissionpolicybindings.admissionregistration.k8s.io": "this API server does not run admission policies",
    "poddisruptionbudgets.policy": "evictions here do not ask for disruption budgets",
    "networkpolicies.networking.k8s.io": "pods of a simulated cluster share one host, and nothing filters their traffic",
}
_BEHAVIOURS: Final[dict[str, Behaviour]] = {
    "configmaps": ConfigMaps(),
    "customresourcedefinitions.apiextensions.k8s.io": Definitions(),
    "events": Events(),
    "namespaces": Namespaces(),
    "persistentvolumeclaims": PersistentVolumeClaims(),
    "persistentvolumes": PersistentVolumes(),
    "pods": Pods(),
    "secrets": Secrets(),
    "services": Services(),
    "jobs.batch": Jobs(),
    "deployments.apps": Behaviour(status_keeps=("labels",), generation_counts=("annotations",)),
    "resourceclaims.resource.k8s.io": Behaviour(status_keeps=_ALL_METADATA),
    "volumeattachments.storage.k8s.io": Behaviour(status_keeps=_ALL_METADATA),
    "horizontalpodautoscalers.autoscaling": Autoscalers(),
    "nodes": Nodes(),
    "endpoints": Behaviour(creates_on_update=True),
    "leases.coordination.k8s.io": Behaviour(creates_on_update=True, unconditional=False),
    **{f"{plural}.rbac.authorization.k8s.io": Behaviour(creates_on_update=True) for plural in _ROLES},
    **{resource: Behaviour(unenforced=f"{resource}: stored, but {why}") for resource, why in _UNENFORCED.items()},
}


def behaviour_of(resource: str) -> Behaviour:
    """The behaviour of a stored resource such as ``pods`` or ``deployments.apps``."""
    return _BEHAVIOURS.get(resource, _PLAIN)
