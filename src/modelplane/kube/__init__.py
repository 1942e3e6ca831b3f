"""The one seam to any Kubernetes API: client, kubeconfig, watch caches, errors."""

from modelplane.kube.backoff import Backoff
from modelplane.kube.client import Client, ObjectList, PatchType, WatchEvent
from modelplane.kube.informer import Informer
from modelplane.kube.kubeconfig import Kubeconfig

__all__ = ["Backoff", "Client", "Informer", "Kubeconfig", "ObjectList", "PatchType", "WatchEvent"]
