"""Exports for trainers: supervised examples, preference pairs, groups of rollouts."""
