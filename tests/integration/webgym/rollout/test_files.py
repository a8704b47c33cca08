"""The files of an iteration are what its journal says, whatever happened to them."""

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rollgym.engine import AttemptRecorded, CollectionStarted, Event, Fixed, WorkItem
from rollgym.records import (
    Attempt,
    Completed,
    Failed,
    OmitReason,
    Omitted,
    Outcome,
    RolloutKey,
    encode_attempt,
)
from rollgym.store import Status, open_run
from tests.builders import record, write_journal
from tests.collecting import hang, policy
from tests.integration.webgym.rollout.iteration import (
    Iteration,
    completed,
    failed,
    succeed,
)
from webgym.rollout.iteration import IterationCoverage, ReportError, read_report
from webgym.rollout.iteration_files import IterationFiles, NoTrajectoryError
from webgym.trajectory.metrics import TaskGroupCounts, calculate_rollout_metrics
from webgym.trajectory.torch_file import read_torch_file

OMITTED = Omitted(OmitReason.STRAGGLER)


async def half_fail(item: WorkItem, attempt: int, deadline: float) -> Outcome:
    if item.task.index % 2:
        return failed(item.task.index if item.task.index % 4 == 1 else None)
    return await succeed(item, attempt, deadline)


def test_everything_that_ended_is_in_the_file_and_in_the_metrics(tmp_path: Path) -> None:
    iteration = Iteration(tmp_path, count=6, repeats=2)
    iteration.collect()
    saved = iteration.saved()
    assert set(saved) == {(task, repeat) for task in range(6) for repeat in range(2)}
    assert all(plain["reward"] == 1.0 for plain in saved.values())
    report = iteration.report()
    assert report.final
    assert report.metrics == calculate_rollout_metrics(saved.values())
    assert report.metrics.success_rate == 1.0
    assert (report.split, report.iteration, report.rank, report.world_size) == ("train", 5, 1, 3)
    assert report.trajectories == iteration.trajectories.name
    names = {"split": "train", "iteration": 5, "rank": 1, "world_size": 3, "final": True}
    assert iteration.metadata().items() >= names.items()
    assert iteration.metadata()["completed"] == 12
    assert not list(tmp_path.glob(".*")), "no draft is left behind"


def test_failed_rollouts_are_there_without_a_reward(tmp_path: Path) -> None:
    iteration = Iteration(tmp_path)
    iteration.collect(half_fail)
    saved = iteration.saved()
    assert [plain["outcome"] for _, plain in sorted(saved.items())] == ["completed", "failed"] * 4
    with_steps, without = saved[1, 0], saved[3, 0]
    for plain in (with_steps, without):
        assert plain["reward"] is None
        assert plain["failure"]["detail"] == "it broke"
        assert plain["ending"] == "failed"
        assert all(one["reward"] is None for one in plain["steps"])
    assert [one["action"] and one["action"]["key"] for one in with_steps["steps"]] == [
        "click",
        "answer",
        None,
    ]
    assert without["steps"] == []
    assert without["task_id"] == "shop-3"
    assert without["task"]["task_name"] == "Task 3"
    report = iteration.report()
    assert report.final
    assert report.metrics == calculate_rollout_metrics(saved.values())
    assert (report.metrics.crashed, report.metrics.success_rate) == (4, 1.0)


def test_the_rollouts_of_a_task_are_together_and_counted_as_a_group(tmp_path: Path) -> None:
    """Tasks end in the reverse order; one has both verdicts, one has a failed rollout."""
    rewards = {0: (1.0, 1.0), 1: (0.0, 1.0), 2: (0.0, 0.0), 3: (1.0, None)}
    turn = asyncio.Condition()
    ended: list[tuple[int, int]] = []
    order = [(task, repeat) for repeat in (1, 0) for task in reversed(rewards)]

    async def in_reverse(item: WorkItem, _attempt: int, _deadline: float) -> Outcome:
        task, repeat = item.key.task, item.key.repeat
        async with turn:
            await turn.wait_for(lambda: order[len(ended)] == (task, repeat))
            ended.append((task, repeat))
            turn.notify_all()
        reward = rewards[task][repeat]
        return failed(task) if reward is None else completed(task, reward)

    iteration = Iteration(tmp_path, count=4, repeats=2)
    iteration.collect(in_reverse, rules=policy(concurrency=Fixed(8)), save_every_percent=25)
    assert ended == order
    assert list(iteration.saved()) == sorted(order)
    assert iteration.metadata()["rollouts_per_task"] == 2
    counts = TaskGroupCounts(
        rollouts_per_task=2, expected=4, complete=3, all_solved=1, none_solved=1, mixed=1
    )
    assert iteration.report().groups == counts
    content = iteration.trajectories.read_bytes()
    iteration.collect()
    assert iteration.trajectories.read_bytes() == content


def test_the_file_is_saved_at_each_part_of_the_expected_rollouts(tmp_path: Path) -> None:
    sizes: set[int] = set()
    seen: list[int] = []

    def note(plain: dict[str, Any]) -> None:
        seen.append(plain["trajectory_index"])
        report = read_report(iteration.metrics)
        assert report is not None
        assert not report.final
        if iteration.trajectories.exists():
            sizes.add(len(list(read_torch_file(iteration.trajectories))))

    iteration = Iteration(tmp_path, count=20)
    iteration.collect(save_every_percent=25, on_trajectory=note)
    assert sizes == {5, 10, 15}
    assert len(iteration.saved()) == 20
    assert iteration.report().final
    assert sorted(seen) == list(range(20))


def test_a_callback_that_raises_does_not_keep_the_files_from_being_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("not now")

    iteration = Iteration(tmp_path)
    coverage = iteration.collect(on_trajectory=refuse)
    assert not coverage.dropped_events
    assert len(iteration.saved()) == 8
    assert "not now" in caplog.text


def test_what_is_omitted_is_counted_and_has_no_trajectory(tmp_path: Path) -> None:
    async def straggle(item: WorkItem, attempt: int, deadline: float) -> Outcome:
        return await (hang if item.task.index == 7 else succeed)(item, attempt, deadline)

    iteration = Iteration(tmp_path)
    rules = policy(completion_threshold=0.8, completion_grace_period=0.05)
    iteration.collect(straggle, rules=rules)
    assert set(iteration.saved()) == {(task, 0) for task in range(7)}
    report = iteration.report()
    assert report.final
    assert report.coverage == IterationCoverage(
        expected=8, completed=7, failed=0, omitted=1, unresolved=0
    )
    iteration.collect(reopen=[Status.OMITTED])
    assert len(iteration.saved()) == 8
    assert iteration.report().coverage.omitted == 0


@pytest.mark.parametrize("then", [completed(1), failed(1), failed(), OMITTED])
def test_a_failed_rollout_that_is_run_again_is_replaced(then: Outcome, tmp_path: Path) -> None:
    async def again(item: WorkItem, *_: object) -> Outcome:
        assert item.task.index == 1, "the others have an outcome"
        return then

    async def fail_once(item: WorkItem, attempt: int, deadline: float) -> Outcome:
        return failed(1) if item.task.index == 1 else await succeed(item, attempt, deadline)

    iteration = Iteration(tmp_path, count=4)
    iteration.collect(fail_once)
    assert iteration.outcomes() == {0: "completed", 1: "failed", 2: "completed", 3: "completed"}
    before = iteration.saved()
    iteration.collect(again, reopen=[Status.FAILED], save_every_percent=1)
    saved = iteration.saved()
    report = iteration.report()
    assert report.metrics == calculate_rollout_metrics(saved.values())
    assert {key: saved[key] for key in before if key != (1, 0)} == {
        key: before[key] for key in before if key != (1, 0)
    }
    counts = (report.coverage.completed, report.coverage.failed, report.coverage.omitted)
    match then:
        case Completed():
            assert counts == (4, 0, 0)
        case Failed():
            assert counts == (3, 1, 0)
            assert saved[1, 0]["attempt"] == 2
        case _:
            assert counts == (3, 0, 1)
            assert (1, 0) not in saved


def test_a_resumed_iteration_has_what_was_there_and_what_is_new(tmp_path: Path) -> None:
    iteration = Iteration(tmp_path)
    with open_run(iteration.run, iteration.tasks()):
        pass
    write_journal(
        iteration.run / "journal.jsonl",
        [
            record(0, outcome=completed(0)),
            record(1, final=False, outcome=failed(1)),
            record(2, outcome=failed()),
        ],
    )
    seen: list[Any] = []
    iteration.collect(on_trajectory=seen.append, save_every_percent=25)
    assert len(iteration.saved()) == 8
    assert sorted(plain["trajectory_index"] for plain in seen) == [1, 3, 4, 5, 6, 7]
    content = iteration.trajectories.read_bytes()
    iteration.collect()
    assert iteration.trajectories.read_bytes() == content


@pytest.mark.parametrize("hears", [0, 3, 9])
def test_what_was_missed_is_read_from_the_journal_at_the_end(hears: int, tmp_path: Path) -> None:
    class Deaf(IterationFiles):
        def observe(self, events: Sequence[Event]) -> None:
            super().observe(events[:hears])
            raise RuntimeError("deaf from here on")

    iteration = Iteration(tmp_path)
    iteration.kind = Deaf
    coverage = iteration.collect(half_fail)
    assert coverage.dropped_events
    saved = iteration.saved()
    assert len(saved) == 8
    assert iteration.report().metrics == calculate_rollout_metrics(saved.values())


def test_an_iteration_that_was_interrupted_is_not_final(tmp_path: Path) -> None:
    iteration = Iteration(tmp_path)
    with open_run(iteration.run, iteration.tasks()):
        pass
    write_journal(iteration.run / "journal.jsonl", [record(0, outcome=completed(0))])
    with iteration.files() as files:
        files.finish(missed=True)
    report = iteration.report()
    assert not report.final
    assert report.coverage.unresolved == 7
    assert not iteration.metadata()["final"]


def test_metrics_are_no_longer_final_once_something_runs_again(tmp_path: Path) -> None:
    iteration = Iteration(tmp_path)
    iteration.collect(half_fail)
    assert iteration.report().final
    with iteration.files() as files:
        files.rebuild()
        files.observe([CollectionStarted(expected=8, groups=8, resumed=8)])
        assert iteration.report().final, "there is nothing to do"
        files.observe([CollectionStarted(expected=8, groups=8, resumed=4)])
        assert not iteration.report().final
    assert len(iteration.saved()) == 8


def test_an_observer_that_was_left_behind_adds_nothing_to_what_was_rebuild(
    tmp_path: Path,
) -> None:
    iteration = Iteration(tmp_path, count=2)
    iteration.collect()
    attempt = record(0, outcome=completed(0))
    event = AttemptRecorded(attempt, iteration.run / "journal.jsonl", 0, None)
    reached, go_on = threading.Event(), threading.Event()

    class Slow(list[Any]):
        def __iter__(self) -> Any:
            reached.set()
            assert go_on.wait(60)
            return super().__iter__()

    with iteration.files() as files:
        thread = threading.Thread(target=files.observe, args=(Slow([event]),))
        thread.start()
        assert reached.wait(60)
        files.finish(missed=True)
        go_on.set()
        thread.join(10)
        assert len(files) == 2
    assert len(iteration.saved()) == 2


def test_only_the_tasks_that_are_held_count(tmp_path: Path) -> None:
    iteration = Iteration(tmp_path)
    iteration.collect()
    with iteration.files(holds=lambda task: task < 3, expected=3) as files:
        files.finish(missed=True)
    assert set(iteration.saved()) == {(0, 0), (1, 0), (2, 0)}
    assert iteration.report().final


def test_a_completed_rollout_without_a_trajectory_is_named(tmp_path: Path) -> None:
    iteration = Iteration(tmp_path, count=1)
    with open_run(iteration.run, iteration.tasks()):
        pass
    other = Completed(1.0, result=msgspec.Raw(b'{"response": {}}'))
    write_journal(iteration.run / "journal.jsonl", [record(0, outcome=other)])
    with iteration.files() as files, pytest.raises(NoTrajectoryError, match="task 0 repeat 0"):
        files.rebuild()


@pytest.mark.parametrize("percent", [0, -1, float("nan")])
def test_a_percentage_that_is_none_is_refused(percent: float, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="save_every_percent"):
        Iteration(tmp_path).files(save_every_percent=percent)


def test_metrics_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    assert read_report(tmp_path / "metrics.json") is None
    (tmp_path / "metrics.json").write_text("{}")
    with pytest.raises(ReportError, match=r"metrics\.json"):
        read_report(tmp_path / "metrics.json")


ENDS = st.builds(
    lambda task, repeat, attempt, outcome: record(
        task, repeat, repeats=2, attempt=attempt, outcome=outcome(task)
    ),
    st.integers(0, 2),
    st.integers(0, 1),
    st.integers(1, 5),
    st.sampled_from([completed, failed, lambda _: failed(), lambda _: OMITTED]),
)


def standing(journal: list[Attempt]) -> dict[RolloutKey, Attempt]:
    """The outcome of each rollout, found in the plainest way."""
    best: dict[RolloutKey, Attempt] = {}
    for attempt in journal:
        key, held = attempt.key, best.get(attempt.key)
        if held is None or not isinstance(held.outcome, Completed):
            wins = isinstance(attempt.outcome, Completed)
            if held is None or wins or attempt.attempt > held.attempt:
                best[key] = attempt
    return best


@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(ENDS, max_size=12, unique_by=lambda end: (end.key, end.attempt)))
def test_any_journal_gives_each_rollout_its_standing_outcome(
    tmp_path_factory: pytest.TempPathFactory, journal: list[Attempt]
) -> None:
    iteration = Iteration(tmp_path_factory.mktemp("any"), count=3, repeats=2)
    with open_run(iteration.run, iteration.tasks()):
        pass
    (iteration.run / "journal.jsonl").write_bytes(b"".join(map(encode_attempt, journal)))
    with iteration.files() as files:
        files.finish(missed=True)
    expected = {
        (key.task, key.repeat): isinstance(attempt.outcome, Failed)
        for key, attempt in standing(journal).items()
        if not isinstance(attempt.outcome, Omitted)
    }
    saved = iteration.saved()
    assert {key: plain["outcome"] == "failed" for key, plain in saved.items()} == expected
    assert iteration.report().coverage.unresolved == 6 - len(standing(journal))


def test_rollouts_side_by_side_make_the_same_files_as_one_after_another(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    one, many = Iteration(tmp_path / "one"), Iteration(tmp_path / "many")
    one.collect(half_fail, rules=policy(concurrency=Fixed(1)))
    many.collect(half_fail, rules=policy(concurrency=Fixed(8)))
    assert one.saved() == many.saved()
    assert one.report().metrics == many.report().metrics
