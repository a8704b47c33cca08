"""The network guard: what pages may reach."""
