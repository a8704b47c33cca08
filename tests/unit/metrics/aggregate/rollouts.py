"""Rollouts to aggregate: a builder with defaults, and hypothesis strategies."""

from math import inf, nan
from typing import Any

from hypothesis import strategies as st

from tests.unit.metrics.strategies import numbers


def rollout(reward: float, *, task: int = 0, repeat: int = 0, **fields: Any) -> dict[str, Any]:
    return {"_ng_task_index": task, "_ng_rollout_index": repeat, "reward": reward, **fields}


def task(*rewards: float, index: int = 0) -> list[dict[str, Any]]:
    """A task with one rollout for each reward."""
    return [rollout(reward, task=index, repeat=repeat) for repeat, reward in enumerate(rewards)]


odd_values = st.sampled_from([nan, inf, -inf, 10**400, None, "7", [1], {"a": 1}, True, False])
values = numbers | st.integers(-5, 5) | odd_values
usages = st.fixed_dictionaries(
    {}, optional={"input_tokens": st.integers(0, 900), "output_tokens": values}
)


@st.composite
def rollouts(draw: st.DrawFn) -> list[dict[str, Any]]:
    """The rollouts of a few tasks, some of their numbers missing, some of them no numbers."""
    return [
        {
            "_ng_task_index": task,
            "_ng_rollout_index": repeat,
            **draw(st.fixed_dictionaries({}, optional={"reward": values, "success": values})),
            **draw(st.dictionaries(st.sampled_from(["steps", "score", "_ng_x"]), values)),
            **draw(st.fixed_dictionaries({}, optional={"response": _responses})),
        }
        for task, repeats in enumerate(draw(st.lists(st.integers(1, 4), max_size=4)))
        for repeat in range(repeats)
    ]


_responses = st.none() | st.fixed_dictionaries({}, optional={"usage": st.none() | usages})

scores = st.sampled_from([0.0, 1.0]) | st.sampled_from([0.1, 0.25, -3.0, 1e308, -1e308, 5e-324])
tasks_of_scores = st.lists(st.lists(scores, max_size=6), max_size=4)
tasks_of_some_scores = st.lists(st.lists(st.none() | scores, max_size=5), max_size=4)
"""A score of None is a rollout that has none."""
