import asyncio

import pytest

from rollgym.cli.puzzles import HARDEST, make_puzzle, puzzle_tasks, verify
from rollgym.cli.solver import ScriptedSolver, calculate
from rollgym.cli.weather import LONGEST_FAULT, Weather
from rollgym.engine import WorkItem
from rollgym.records import (
    TRAITS,
    Completed,
    ModelContextError,
    RolloutError,
    Row,
    Task,
    TaskError,
    derive_seed,
)

CALM = Weather(faults=0.0, failures=0.0)
STORM = Weather(faults=1.0, failures=0.0)


def items(count: int, repeats: int = 1) -> list[WorkItem]:
    return [
        WorkItem(task, repeat, derive_seed(0, "rollout", task.index, repeat))
        for task in puzzle_tasks(count, repeats, seed=0)
        for repeat in range(repeats)
    ]


def solve(item: WorkItem, weather: Weather = CALM, attempt: int = 1) -> Completed:
    async def once() -> Completed:
        outcome = await ScriptedSolver(0.0, weather)(item, attempt, 0.0)
        assert isinstance(outcome, Completed)
        return outcome

    return asyncio.run(once())


def test_the_same_seed_makes_the_same_puzzles_however_many() -> None:
    few, many = list(puzzle_tasks(5, 2, seed=3)), list(puzzle_tasks(50, 2, seed=3))
    assert many[:5] == few
    assert list(puzzle_tasks(5, 2, seed=4)) != few


def test_puzzles_differ_in_family_and_difficulty() -> None:
    puzzles = [make_puzzle(index, 0) for index in range(60)]
    assert {puzzle.family for puzzle in puzzles} == {"arithmetic", "letters", "sorting"}
    assert {puzzle.difficulty for puzzle in puzzles} == set(range(1, HARDEST + 1))


def test_the_right_answer_earns_everything() -> None:
    for index in range(60):
        puzzle = make_puzzle(index, 0)
        assert verify(puzzle.row(), f"So:\nAnswer: {puzzle.answer}") == 1.0


@pytest.mark.parametrize("response", ["", "361", "Answer: -99999", "Answer: 1\nAnswer: 2"])
def test_a_response_without_one_right_answer_earns_nothing(response: str) -> None:
    for index in range(6):
        assert verify(make_puzzle(index, 0).row(), response) == 0.0


def test_a_partly_sorted_list_earns_its_part() -> None:
    row = Row.of({"family": "sorting", "expected_answer": "1, 2, 3, 4"})
    assert verify(row, "Answer: 2, 1, 3, 4") == 0.5
    assert verify(row, "Answer: 1, 2, 3") == 0.0


def test_the_solver_is_mostly_right_and_errs_on_purpose() -> None:
    rewards = [solve(item).reward for item in items(60, 2)]
    assert 0.6 < sum(reward == 1.0 for reward in rewards) / len(rewards) < 0.95


def test_its_reward_does_not_depend_on_the_attempt() -> None:
    for item in items(30):
        assert solve(item, attempt=1).reward == solve(item, attempt=3).reward


def test_it_measures_its_tool_calls_and_its_response() -> None:
    item = items(1)[0]
    measures = solve(item).measures
    assert measures["tool_calls"] == item.task.row.get("difficulty", int, 0) + 1
    assert measures["response_length"] > len("Answer: ")


def test_a_passing_fault_is_retryable_and_over_after_two_attempts() -> None:
    kinds = set()
    for item in items(60):
        for attempt in range(1, LONGEST_FAULT + 1):
            try:
                solve(item, STORM, attempt)
            except RolloutError as fault:
                kinds.add(fault.kind)
        solve(item, STORM, LONGEST_FAULT + 1)
    assert {str(kind) for kind in kinds} == {"model_rate_limit", "tool", "verifier"}
    assert all(TRAITS[kind].retryable for kind in kinds)


def test_a_lasting_fault_cannot_be_retried() -> None:
    with pytest.raises(ModelContextError) as raised:
        solve(items(1)[0], Weather(faults=0.0, failures=1.0))
    assert not raised.value.retryable


@pytest.mark.parametrize("row", [Row.of({}), Row.of({"family": "arithmetic"})])
def test_a_row_that_is_no_puzzle_is_a_task_error(row: Row) -> None:
    with pytest.raises(TaskError):
        solve(WorkItem(Task(0, row), 0, 1))


def test_the_calculator_reads_sums_and_nothing_else() -> None:
    assert calculate("-3 * 4") == -12
    assert calculate("3 - 4") == -1
    with pytest.raises(ValueError, match="cannot read"):
        calculate("__import__('os')")
