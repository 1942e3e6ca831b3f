"""A control plane for LLM inference across a fleet of GPU clusters."""

__version__ = "0.1.0"
