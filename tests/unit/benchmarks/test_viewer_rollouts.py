"""The rollouts that the viewer is measured with are like those that people have."""

import json
from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec
import pytest

from benchmarks.viewer_rollouts import NEEDLE, Plan, Rollouts
from rollgym.records import Completed, Failed, Failure, FailureKind, Row, Task
from rollgym.rollouts.output_row import failure_row, output_row
from tests.builders import record

PLAN = Plan(rollouts=240, bytes=10_000_000, giant_bytes=400_000, long_turns=200)
TASK = Task(0, Row.of({"responses_create_params": {"input": "hi"}, "agent_ref": {"name": "a"}}))
Json = dict[str, Any]


class Made:
    """The lines of a plan."""

    def __init__(self, plan: Plan) -> None:
        rollouts = Rollouts(plan)
        self.lines = list(rollouts.lines())
        self.failures = list(rollouts.failures())
        self.totals = rollouts.totals
        self.rows: list[Json] = [json.loads(line) for line in self.lines]
        self.failed: list[Json] = [json.loads(line) for line in self.failures]


@cache
def made() -> Made:
    return Made(PLAN)


def test_the_same_plan_makes_the_same_bytes() -> None:
    again = Made(PLAN)
    assert again.lines == made().lines
    assert again.failures == made().failures


def test_the_file_is_about_as_large_as_planned() -> None:
    assert sum(map(len, made().lines)) == pytest.approx(PLAN.bytes, rel=0.15)
    assert all(line.endswith(b"}\n") and line.count(b"\n") == 1 for line in made().lines)


def test_rows_have_the_fields_of_real_ones() -> None:
    outcome = Completed(1.0, result=msgspec.Raw(b'{"response":{"output":[]}}'))
    real = json.loads(output_row(TASK, record(outcome=outcome)).raw)
    for row in made().rows:
        assert real.keys() <= row.keys()
        assert real["metadata"].keys() == row["metadata"].keys()
        assert len(row["output"]) == 2 * row["metadata"]["tool_calls_made"] + 1
        assert row["output"][-1]["content"] == row["response"]["output"][-1]["content"][0]["text"]


def test_failed_attempts_have_the_fields_of_real_ones() -> None:
    failure = Failure(FailureKind.TOOL, "broke", retryable=True)
    outcome = Failed(failure, result=msgspec.Raw(b'{"response":{"output":[]}}'))
    real = json.loads(failure_row(TASK, record(outcome=outcome)).raw)
    assert made().failed
    for row in made().failed:
        assert row.keys() == real.keys()
        assert row["failure"].keys() == real["failure"].keys()
        FailureKind(row["failure"]["kind"])


def test_every_rollout_is_completed_or_has_failed_for_good() -> None:
    def key(row: Json) -> tuple[int, int]:
        return row["_ng_task_index"], row["_ng_rollout_index"]

    completed = {key(row) for row in made().rows}
    failed = {key(row) for row in made().failed if row["final"]}
    retried = {key(row) for row in made().failed if not row["final"]}
    assert len(completed) == len(made().rows)
    assert len(completed) + len(failed) == PLAN.rollouts
    assert not completed & failed
    assert retried <= completed
    assert {task for task, _ in completed | failed} == set(range(PLAN.tasks))


def test_one_rollout_is_large_and_one_has_many_turns() -> None:
    by_task = {row["_ng_task_index"]: row for row in made().rows}
    sizes = {
        row["_ng_task_index"]: len(line)
        for row, line in zip(made().rows, made().lines, strict=True)
    }
    assert sizes[PLAN.tasks - 2] == pytest.approx(PLAN.giant_bytes, rel=0.1)
    assert len(by_task[PLAN.tasks - 1]["output"]) == PLAN.long_turns + 1


@pytest.mark.parametrize(
    ("query", "holds"),
    [
        ("status=completed", lambda row: True),
        ("success=true", lambda row: row["success"]),
        ("success=false", lambda row: not row["success"]),
        ("domain=physics", lambda row: row["domain"] == "physics"),
        ("agent=coding_agent", lambda row: row["agent_ref"]["name"] == "coding_agent"),
        ("min_tool_calls=12", lambda row: row["metadata"]["tool_calls_made"] >= 12),
        ("min_reward=0.4&max_reward=0.6", lambda row: 0.4 <= row["reward"] <= 0.6),
        (f"q={NEEDLE}", lambda row: NEEDLE in json.dumps(row)),
        (
            "domain=physics&min_difficulty=7&success=false",
            lambda row: (
                row["domain"] == "physics" and row["difficulty"] >= 7 and not row["success"]
            ),
        ),
        ("tool=run_python", lambda row: '"run_python"' in json.dumps(row["response"]["output"])),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_a_filter_has_to_find_is_counted(query: str, holds: Callable[[Json], bool]) -> None:
    rows = made().rows
    if query.startswith(("agent=", "tool=")):
        rows = [*rows, *(row for row in made().failed if row["final"])]
    assert made().totals[query] == sum(holds(row) for row in rows)
    assert made().totals[query] > 0


def test_failures_are_counted_by_kind() -> None:
    final = [row["failure"]["kind"] for row in made().failed if row["final"]]
    assert made().totals["status=failed"] == len(final)
    for kind in set(final):
        assert made().totals[f"kind={kind}&status=failed"] == final.count(kind)
    assert made().totals[""] == PLAN.rollouts
