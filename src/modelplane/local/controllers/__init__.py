"""Workload and housekeeping controllers of a simulated cluster: the part of kube-controller-manager that a fleet needs.

Decisions are pure functions over objects (`rollout`, `replicas`, `slices`, `ownership`); services watch, decide and write.
"""
