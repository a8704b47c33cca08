"""The network guard: checks every connection that a page opens."""
