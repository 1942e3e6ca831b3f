"""The laptop fleet: simulated clusters whose every piece is a client of the Kubernetes API."""
