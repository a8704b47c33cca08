"""Metrics of a run: streaming aggregates over its attempt records."""

from rollgym.metrics.groups import TaskProfile, reward_profile
from rollgym.metrics.metrics import Metrics
from rollgym.metrics.pass_at_k import PassAtK
from rollgym.metrics.summary import Summary

__all__ = [
    "Metrics",
    "PassAtK",
    "Summary",
    "TaskProfile",
    "reward_profile",
]
