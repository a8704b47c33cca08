"""The monitor as the observer of real collections."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from rollgym.engine import Coverage, WorkItem, collect, run
from rollgym.records import BrowserError, Completed, Outcome, TaskError
from rollgym.store import Status, open_run
from tests.builders import tasks
from tests.collecting import policy
from webgym.monitor.snapshot import MonitorSnapshot, TaskState
from webgym.monitor.task_monitor import TaskMonitor

TASKS = 30


def collected(
    directory: Path, monitor: TaskMonitor, count: int = TASKS, reopen: tuple[Status, ...] = ()
) -> Coverage:
    async def work(item: WorkItem, attempt: int, _: float) -> Outcome:
        """Every third breaks once, every fifth for good, every seventh is blocked."""
        index = item.task.index
        monitor.waiting(item.key)
        await asyncio.sleep(0)
        for step in range(1, 4):
            monitor.running(item.key, "model", step)
            await asyncio.sleep(0.001)
        if index % 3 == 0 and attempt == 1:
            raise BrowserError("the session was lost")
        if index % 5 == 0:
            raise TaskError("no such page")
        return Completed(float(index % 2), measures={"blocked": float(index % 7 == 0)})

    with (
        monitor,
        open_run(directory, tasks(count), replay=monitor.replay, reopen=reopen) as store,
    ):
        return run(collect(store.inputs, work, store, policy(), [monitor]))


def test_an_attempt_that_takes_too_long_is_ended_and_retried_by_the_engine(tmp_path: Path) -> None:
    now = [0.0]
    monitor = TaskMonitor(timeout_after=100, clock=lambda: now[0])

    async def work(item: WorkItem, attempt: int, _: float) -> Outcome:
        monitor.waiting(item.key)
        monitor.running(item.key, "execute", 1)
        if attempt == 1:
            now[0] += 101
            await asyncio.Event().wait()
        return Completed(1.0)

    with monitor, open_run(tmp_path / "run", tasks(1), replay=monitor.replay) as store:
        hours = policy(attempt_timeout=3600, rollout_timeout=7200)
        coverage = run(
            collect(store.inputs, work, store, hours, [monitor], timeouts=monitor.timeouts)
        )
    assert (coverage.completed, coverage.attempts) == (1, 2)
    assert monitor.snapshot().timeouts == 1


def assert_agrees(snapshot: MonitorSnapshot, coverage: Coverage) -> None:
    counts = snapshot.counts
    judged = (TaskState.SUCCESS, TaskState.FAILURE, TaskState.BLOCKED)
    assert sum(counts[state] for state in judged) == coverage.completed
    assert counts[TaskState.FAILED] == coverage.failed
    assert counts[TaskState.OMITTED] == coverage.omitted
    assert counts[TaskState.NOT_STARTED] == coverage.unresolved
    assert sum(counts.values()) == coverage.expected
    assert snapshot.finished
    assert snapshot.live == ()


def test_the_last_snapshot_says_what_the_coverage_says(tmp_path: Path) -> None:
    path = tmp_path / "monitor.json"
    monitor = TaskMonitor(file=path)
    coverage = collected(tmp_path / "run", monitor)
    snapshot = msgspec.json.decode(path.read_bytes(), type=MonitorSnapshot)
    assert_agrees(snapshot, coverage)
    assert snapshot.counts[TaskState.BLOCKED] > 0
    assert snapshot.retried == TASKS / 3
    assert snapshot.failures["browser"] == TASKS / 3
    assert snapshot.rollouts_per_minute


@pytest.mark.parametrize("reopen", [(), (Status.FAILED,)])
def test_a_run_that_is_continued_shows_what_was_there(
    tmp_path: Path, reopen: tuple[Status, ...]
) -> None:
    first = collected(tmp_path / "run", TaskMonitor())
    monitor = TaskMonitor()
    coverage = collected(tmp_path / "run", monitor, reopen=reopen)
    assert_agrees(monitor.snapshot(), coverage)
    assert monitor.snapshot().resumed == first.expected
