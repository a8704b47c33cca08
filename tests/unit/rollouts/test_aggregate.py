"""The default metrics are the same, counted live or from the journal, group by group."""

import msgspec

from rollgym.records import Attempt, Completed, Row, Task
from rollgym.rollouts.aggregate import CountedRollout, DefaultMetrics

RESULT = b'{"steps":3,"response":{}}'


def completed(task: int, repeat: int, reward: float, result: bytes = RESULT) -> Attempt:
    return Attempt(
        task=task,
        repeat=repeat,
        repeats=2,
        attempt=1,
        final=True,
        seed=0,
        started=0.0,
        seconds=1.0,
        outcome=Completed(reward, result=msgspec.Raw(result)),
    )


def task(index: int, agent: str) -> Task:
    row = {"responses_create_params": {"input": "x"}, "agent_ref": {"name": agent}, "level": 2}
    return Task(index, Row.of(row), 2)


def count(metrics: DefaultMetrics, agent: str, attempt: Attempt) -> None:
    metrics.add(attempt, CountedRollout.of(task(attempt.task, agent), attempt))


def test_each_agent_has_its_own_metrics_with_finished_and_open_groups() -> None:
    with DefaultMetrics() as metrics:
        count(metrics, "a", completed(0, 0, 1.0))
        count(metrics, "b", completed(1, 0, 0.0))
        count(metrics, "a", completed(0, 1, 0.0))
        entries = [(entry, list(entry.groups)) for entry in metrics.entries()]
    (first, finished), (second, unfinished) = entries
    assert (first.agent, second.agent) == ("a", "b")
    assert first.agent_metrics["mean/reward"] == 0.5
    assert first.agent_metrics["mean/level"] == 2.0
    assert [msgspec.json.decode(group)["_ng_task_index"] for group in finished] == [0]
    assert [msgspec.json.decode(group)["num_rollouts"] for group in unfinished] == [1]


def test_a_number_is_that_of_the_result_and_one_that_cannot_be_read_is_left_out() -> None:
    results = (
        b'{"level":"high","response":{"usage":{"input_tokens":7,"steps":2}},"steps":9}',
        b'{"big":1e999,"solved":true,"response":{"usage":{"input_tokens":1e999}}}',
    )
    with DefaultMetrics() as metrics:
        for repeat, result in enumerate(results):
            count(metrics, "a", completed(0, repeat, 1.0, result))
        (entry,) = metrics.entries()
    means = {name: value for name, value in entry.agent_metrics.items() if name.startswith("mean/")}
    assert means == {
        "mean/input_tokens": 7.0,
        "mean/level": 2.0,
        "mean/reward": 1.0,
        "mean/solved": 1.0,
        "mean/steps": 2.0,
        "mean/success": 1.0,
    }
