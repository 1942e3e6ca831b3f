"""The operator host: the wiring of a control plane on any Kubernetes API server."""
