"""The function libraries of Kubernetes' CEL. Importing `modelplane.plan.cel.functions.all` fills the registry."""
