"""A policy that matches words: the baseline that decides for itself."""

from webgym.policies.heuristic.policy import HeuristicPolicy

__all__ = ["HeuristicPolicy"]
