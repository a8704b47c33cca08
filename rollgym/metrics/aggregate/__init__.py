"""The aggregate metrics of tool-agent rollouts: what `/aggregate_metrics` answers.

`aggregate` is the whole answer for a list of rollouts, `AgentMetrics` the same as a stream. The
rest is for hooks: `compute_metrics` and `get_key_metrics` of a resources server.
"""

from rollgym.metrics.aggregate.agent import AgentMetrics, aggregate
from rollgym.metrics.aggregate.average_of_k import AverageOfK, average_of_k
from rollgym.metrics.aggregate.default import default_agent_metrics, default_key_metrics
from rollgym.metrics.aggregate.highest_k import highest_k
from rollgym.metrics.aggregate.majority_at_k import majority_at_k
from rollgym.metrics.aggregate.pass_at_k import pass_at_k
from rollgym.metrics.aggregate.pass_majority import accuracy, pass_majority_metrics
from rollgym.metrics.aggregate.result import AggregateMetrics
from rollgym.metrics.aggregate.rollouts import ROLLOUT_INDEX, TASK_INDEX, tasks_of

__all__ = [
    "ROLLOUT_INDEX",
    "TASK_INDEX",
    "AgentMetrics",
    "AggregateMetrics",
    "AverageOfK",
    "accuracy",
    "aggregate",
    "average_of_k",
    "default_agent_metrics",
    "default_key_metrics",
    "highest_k",
    "majority_at_k",
    "pass_at_k",
    "pass_majority_metrics",
    "tasks_of",
]
