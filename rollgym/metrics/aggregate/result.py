"""What `/aggregate_metrics` answers, and what the file beside the rollouts holds for each agent."""

from typing import Any

import msgspec


class AggregateMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of one agent: all of them, the few to look at first, and those of each task.

    Hooks of a server may put anything that is JSON into the first two.
    """

    agent_metrics: dict[str, Any] = {}
    key_metrics: dict[str, Any] = {}
    group_level_metrics: list[dict[str, float]] = []
