"""The aggregate metrics of tool-agent rollouts: the response of `/aggregate_metrics`.

`aggregate` computes the whole response for a list of rollouts, `AgentMetrics` the same as a stream.
The other functions are for hooks: `compute_metrics` and `get_key_metrics` of a resources server.
"""

from rollgym.metrics.aggregate.agent import AgentMetrics, AggregateMetrics, aggregate
from rollgym.metrics.aggregate.estimates import average_of_k, majority_at_k, pass_at_k
from rollgym.metrics.aggregate.rollouts import numbers_of, tasks_of
from rollgym.metrics.aggregate.standard_metrics import (
    accuracy,
    default_agent_metrics,
    default_key_metrics,
    highest_k,
    pass_majority_metrics,
)

__all__ = [
    "AgentMetrics",
    "AggregateMetrics",
    "accuracy",
    "aggregate",
    "average_of_k",
    "default_agent_metrics",
    "default_key_metrics",
    "highest_k",
    "majority_at_k",
    "numbers_of",
    "pass_at_k",
    "pass_majority_metrics",
    "tasks_of",
]
