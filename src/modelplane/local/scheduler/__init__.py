"""The pod scheduler of a simulated cluster: a client of the Kubernetes API that binds pods as kube-scheduler would.

Pure in the middle (`nodes`, `devices`, `schedule`: plain data in, a decision out), one module at the edge (`service`).
It has no preemption, no inter-pod affinity and no topology spread; a pod that asks for those is scheduled without them.
"""
