"""The usual numbers are the same, counted live or from the journal, group by group."""

import msgspec

from rollgym.records import Attempt, Completed, Row, Task
from rollgym.rollouts.numbers import UsualNumbers


def completed(task: int, repeat: int, reward: float) -> Attempt:
    return Attempt(
        task=task,
        repeat=repeat,
        repeats=2,
        attempt=1,
        final=True,
        seed=0,
        started=0.0,
        seconds=1.0,
        outcome=Completed(reward, result=msgspec.Raw(b'{"steps":3,"response":{}}')),
    )


def task(index: int, agent: str) -> Task:
    row = {"responses_create_params": {"input": "x"}, "agent_ref": {"name": agent}, "level": 2}
    return Task(index, Row.of(row), 2)


def test_each_agent_has_numbers_of_its_own_and_whole_groups_are_spooled() -> None:
    with UsualNumbers() as numbers:
        numbers.add(task(0, "a"), completed(0, 0, 1.0))
        numbers.add(task(1, "b"), completed(1, 0, 0.0))
        numbers.add(task(0, "a"), completed(0, 1, 0.0))
        found = {agent: (metrics, list(groups)) for agent, metrics, groups in numbers.agents()}
    metrics, whole = found["a"]
    assert metrics.agent_metrics["mean/reward"] == 0.5
    assert metrics.agent_metrics["mean/level"] == 2.0
    assert metrics.group_level_metrics == []
    assert [msgspec.json.decode(group)["_ng_task_index"] for group in whole] == [0]
    metrics, whole = found["b"]
    assert [group["num_rollouts"] for group in metrics.group_level_metrics] == [1]
    assert whole == []
