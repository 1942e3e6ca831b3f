"""Who goes where, and why: pure functions over one frozen snapshot of the fleet."""
