"""The one seam to any Kubernetes API: client, kubeconfig, watch caches, errors."""
