"""The embedded API server: Kubernetes REST semantics over SQLite."""
