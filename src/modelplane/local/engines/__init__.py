"""The mock engine: a small HTTP process that stands where a pod's inference server would.

It speaks OpenAI's, Anthropic's and vLLM's dialects, so gateways, probes and clients meet what they would meet in
production, and it names the pod that answered. Nothing here imports more than the standard library: the process has
to start in milliseconds and stay small, since a laptop runs many of them.
"""
