"""The serving stack of a cluster as data."""
