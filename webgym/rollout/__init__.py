"""`scripts/rollout.py`: an iteration of rollouts, from its configuration to its files."""
