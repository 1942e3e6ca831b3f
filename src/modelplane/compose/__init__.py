"""Desired objects and status from a parent and a read-only view of the world: pure, one module per kind."""
