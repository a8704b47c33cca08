"""Actions: what an agent can do, and how a model writes it."""
