"""Which tasks are rolled out: sampling, and domains that block the agent."""
