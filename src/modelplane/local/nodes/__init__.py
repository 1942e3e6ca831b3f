"""The node runtime of a simulated cluster: what kubelets and a DRA driver do on real nodes, in one small process.

It registers nodes and devices from the fleet file, renews Leases, runs the pods that are bound to its nodes and serves
their logs. Engine pods are answered for by mock engines, real processes in their own sessions that outlive this one and are
adopted again; every other pod is Ready and does nothing. Nothing is ever pulled, and each pod's events say so.
"""
