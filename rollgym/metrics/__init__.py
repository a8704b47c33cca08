"""Metrics of a run: streaming aggregates over its attempt records."""

from rollgym.metrics.distribution import Distribution
from rollgym.metrics.metrics import Metrics
from rollgym.metrics.pass_at_k import PassAtK
from rollgym.metrics.profile import TaskProfile, reward_profile
from rollgym.metrics.summary import (
    Counts,
    DistributionSummary,
    GroupCounts,
    Summary,
    Throughput,
)

__all__ = [
    "Counts",
    "Distribution",
    "DistributionSummary",
    "GroupCounts",
    "Metrics",
    "PassAtK",
    "Summary",
    "TaskProfile",
    "Throughput",
    "reward_profile",
]
