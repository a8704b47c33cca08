"""What a run amounts to: streaming, mergeable aggregates over its attempt records."""

from rollgym.metrics.distribution import Distribution
from rollgym.metrics.metrics import Metrics
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
    "Summary",
    "TaskProfile",
    "Throughput",
    "reward_profile",
]
