"""Gateway API objects to the configuration of real Envoy processes."""
