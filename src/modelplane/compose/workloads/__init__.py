"""What a ModelReplica becomes on its cluster: workloads, claims, pool, picker, route."""
