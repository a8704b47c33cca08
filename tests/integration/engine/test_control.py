"""Changing a collection while it runs."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import pytest

from rollgym.engine import (
    NO_RETRIES,
    AttemptRecorded,
    CollectionStatus,
    Control,
    Coverage,
    Event,
    ExitStatus,
    Fixed,
    Held,
    RetryPolicy,
    RetryRule,
    Stop,
    WorkItem,
    run,
)
from rollgym.metrics import Summary
from rollgym.monitor import LiveMetrics, recount
from rollgym.records import (
    Completed,
    OmitReason,
    Omitted,
    Outcome,
    Price,
    Prices,
    RolloutKey,
    ToolError,
)
from rollgym.store import RefusedError, cause_of, read_changes, status_of
from tests.collecting import Collector, Work, complete

WITHIN = 20.0


class Scene:
    """A collection, and what happens beside it."""

    def __init__(self, directory: Path, count: int = 4, repeats: int = 1) -> None:
        self.collector = Collector(directory / "run", count, repeats)
        self.control = Control()
        self.started: list[tuple[int, int]] = []
        self.running = 0
        self.released = asyncio.Event()
        self.broken = True
        self.metrics = LiveMetrics()
        self.events: list[Event] = []

    async def worker(self, item: WorkItem, attempt: int, deadline: float) -> Outcome:
        """Works until it is released."""
        self.started.append((item.task.index, attempt))
        self.running += 1
        try:
            await self.released.wait()
        finally:
            self.running -= 1
        return Completed(1.0)

    async def flaky(self, item: WorkItem, attempt: int, deadline: float) -> Outcome:
        """Breaks in every second task until it is repaired."""
        self.started.append((item.task.index, attempt))
        if item.task.index % 2 and self.broken:
            raise ToolError("it broke")
        return Completed(1.0)

    def play(
        self, worker: Work, act: Callable[[], Coroutine[None, None, None]], **options: Any
    ) -> tuple[Coverage, Summary]:
        """Collect while `act` goes on; the coverage, and the live numbers, which are checked."""

        async def main() -> Coverage:
            async with asyncio.timeout(WITHIN), asyncio.TaskGroup() as group:
                acting = group.create_task(act())
                observers = (self.metrics, self)
                coverage = await self.collector.collect(
                    worker, control=self.control, observers=observers, **options
                )
                await acting
                return coverage

        coverage = run(main())
        summary = self.metrics.summary()
        assert summary == recount(self.collector.directory).summary()
        assert self.metrics.reopened == 0
        return coverage, summary

    name = "scene"

    def observe(self, events: Sequence[Event]) -> None:
        self.events += events

    async def until(self, holds: Callable[[], bool]) -> None:
        while not holds():  # noqa: ASYNC110 - nothing else would tell
            await asyncio.sleep(0.002)

    def status(self) -> CollectionStatus:
        status = self.control.status()
        assert status is not None
        return status

    def resolved(self) -> int:
        status = self.status()
        return status.completed + status.failed + status.omitted


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_a_held_collection_starts_nothing_and_waits_until_every_reason_is_released(
    scene: Scene,
) -> None:
    async def act() -> None:
        await scene.until(lambda: scene.running == 2)
        assert scene.control.hold("a person paused it", by="ann")
        assert scene.control.hold("the trainer is behind")
        assert not scene.control.hold("the trainer is behind")
        scene.released.set()
        await scene.until(lambda: scene.resolved() == 2)
        scene.control.release("a person paused it", by="ann")
        await asyncio.sleep(0.05)
        assert len(scene.started) == 2
        assert scene.control.release("the trainer is behind")
        assert not scene.control.release("the trainer is behind")

    coverage, _ = scene.play(scene.worker, act, concurrency=Fixed(2))
    assert coverage.exit_status is ExitStatus.COMPLETE
    held = [event.reasons for event in scene.events if isinstance(event, Held)]
    assert held == [
        ("a person paused it", "the trainer is behind"),
        ("the trainer is behind",),
        (),
    ]


def test_a_held_collection_with_nothing_in_flight_obeys_a_stop_and_a_deadline(
    scene: Scene,
) -> None:
    async def stop_soon() -> None:
        await scene.until(lambda: scene.control.status() is not None)
        scene.control.stop(by="ann")

    scene.control.hold("paused", by="ann")
    coverage, _ = scene.play(complete, stop_soon)
    assert (coverage.unresolved, coverage.exit_status) == (4, ExitStatus.INTERRUPTED)

    again = Scene(scene.collector.directory.parent)

    async def end_soon() -> None:
        again.control.set_deadline(time.time() + 0.1)

    again.control.hold("paused")
    coverage, _ = again.play(complete, end_soon)
    assert (coverage.unresolved, coverage.exit_status) == (4, ExitStatus.STOPPED)
    assert "deadline of the run has passed" in (coverage.stopped or "")


def test_the_limit_on_attempts_is_changed_at_once_and_returns_to_the_policy(
    tmp_path: Path,
) -> None:
    scene = Scene(tmp_path, count=20)
    seen: list[int] = []

    async def act() -> None:
        for limit, expected in ((6, 6), (3, 6), (None, 6), (8, 8)):
            scene.control.set_concurrency(limit)
            await scene.until(lambda: scene.running == expected)
            await asyncio.sleep(0.01)
            seen.append(scene.running)
        status = scene.status()
        assert (status.limit, status.concurrency, status.running) == (8, "set live", 8)
        scene.released.set()

    coverage, _ = scene.play(scene.worker, act, concurrency=Fixed(2))
    assert coverage.completed == 20
    assert seen == [6, 6, 6, 8]
    with pytest.raises(ValueError, match="from 1 to"):
        scene.control.set_concurrency(0)


def test_a_budget_is_changed_while_the_collection_runs(scene: Scene) -> None:
    async def act() -> None:
        await scene.until(lambda: scene.running == 4)
        with pytest.raises(ValueError, match="needs prices"):
            scene.control.set_budget(max_cost=1.0)
        scene.control.set_budget(max_tokens=None)
        assert scene.status().max_tokens is None
        scene.released.set()

    coverage, _ = scene.play(scene.worker, act, max_tokens=1)
    assert coverage.completed == 4
    priced = Control()
    priced.set_budget(max_cost=1e-9)
    prices = Prices({"m": Price(1.0, 1.0)})
    options = {"prices": prices, "control": priced}
    assert Collector(scene.collector.directory)(complete, **options).completed == 4


def test_running_attempts_are_cut_and_start_again_without_using_up_a_retry(scene: Scene) -> None:
    cuts: list[int] = []

    async def act() -> None:
        await scene.until(lambda: scene.running == 4)
        scene.control.set_policy_version("2", by="ann")
        keys = [each.key for each in scene.control.open_attempts()][:1]
        cuts.append(await scene.control.cut(keys, "a newer policy"))
        await scene.until(lambda: len(scene.started) == 5 and scene.running == 4)
        old = await scene.control.cut(lambda each: each.policy_version is None, "a newer policy")
        cuts.append(old)
        with pytest.raises(ZeroDivisionError):
            await scene.control.cut(lambda each: each.attempt < 1 // 0, "a bug of the caller")
        await scene.until(lambda: len(scene.started) == 8 and scene.running == 4)
        scene.released.set()

    coverage, summary = scene.play(scene.worker, act, retry=NO_RETRIES)
    assert (coverage.completed, coverage.attempts) == (4, 8)
    assert cuts == [1, 3]
    records = scene.collector.lines
    outcomes = Counter((line["final"], line["outcome"].get("reason")) for line in records)
    assert outcomes == {(False, "cut"): 4, (True, None): 4}
    assert records[0]["outcome"]["detail"] == "a newer policy"
    assert summary.counts.failed == summary.counts.omitted == 0


def test_a_cut_does_not_use_up_a_retry_after_a_resume_either(scene: Scene) -> None:
    stop = Stop()

    async def act() -> None:
        await scene.until(lambda: scene.running == 4)
        scene.control.hold("paused")
        assert await scene.control.cut(lambda _: True, "again") == 4
        await scene.until(lambda: scene.running == 0)
        stop.request()

    async def broken_once(item: WorkItem, attempt: int, deadline: float) -> Outcome:
        if attempt < 4:
            raise ToolError("it broke")
        return Completed(1.0)

    scene.play(scene.worker, act, stop=stop)
    assert scene.collector(broken_once).completed == 4


def test_stale_rollouts_are_dropped_whether_they_run_or_wait_for_a_retry(scene: Scene) -> None:
    async def worker(item: WorkItem, attempt: int, deadline: float) -> Outcome:
        if item.task.index < 2:
            raise ToolError("later", retry_after=600.0)
        return await scene.worker(item, attempt, deadline)

    def states() -> Counter[bool]:
        return Counter(each.running for each in scene.control.open_attempts())

    async def act() -> None:
        await scene.until(lambda: scene.running == 2 and states() == {True: 2, False: 2})
        chosen = {0, 2}
        count = await scene.control.drop(lambda each: each.key.task in chosen, "too old")
        assert count == 2
        await scene.until(lambda: scene.resolved() == 2)
        assert await scene.control.drop(lambda each: each.key.task == 1, "too old") == 1
        scene.released.set()

    patient = RetryPolicy(default=RetryRule(3), by_kind={}, max_retry_after=1000.0)
    coverage, summary = scene.play(worker, act, retry=patient)
    assert (coverage.completed, coverage.omitted) == (1, 3)
    assert summary.omitted_by_reason == {OmitReason.STALE: 3}


def test_failed_rollouts_are_run_again_while_the_collection_goes_on(tmp_path: Path) -> None:
    scene = Scene(tmp_path, count=6, repeats=2)
    counts: list[int] = []

    async def worker(item: WorkItem, attempt: int, deadline: float) -> Outcome:
        work = scene.worker if item.key == RolloutKey(0, 0) else scene.flaky
        return await work(item, attempt, deadline)

    async def act() -> None:
        await scene.until(lambda: scene.resolved() == 11)
        counts.append(await scene.control.retry_failed(by="ann"))
        counts.append(await scene.control.retry_failed())
        await scene.until(lambda: scene.status().reopened == 0)
        scene.broken = False
        counts.append(await scene.control.retry_failed(omitted=True))
        scene.released.set()

    coverage, summary = scene.play(worker, act, max_same_failures=0)
    assert counts == [6, 0, 6]
    assert (coverage.completed, coverage.failed, coverage.groups_complete) == (12, 0, 6)
    assert summary.groups.complete == 6
    assert summary.counts.attempts == coverage.attempts == 6 + 6 * (3 + 3 + 1)
    finals = [line for line in scene.collector.lines if line["final"]]
    assert len(finals) == 6 + 6 * 3


def test_failures_of_an_earlier_process_are_retried_and_the_main_pass_does_not_repeat_them(
    tmp_path: Path,
) -> None:
    scene = Scene(tmp_path, count=6)
    scene.collector(scene.flaky)
    scene.collector.count, scene.broken = 9, False
    scene.started.clear()

    async def main() -> Coverage:
        asked = asyncio.ensure_future(_retry_failed(scene.control))
        coverage = await scene.collector.collect(
            scene.flaky, control=scene.control, concurrency=Fixed(1)
        )
        assert await asked == 3
        return coverage

    coverage = run(main())
    assert (coverage.completed, coverage.expected) == (9, 9)
    assert sorted(task for task, _ in scene.started) == [1, 3, 5, 6, 7, 8]


async def _retry_failed(control: Control) -> int:
    return await control.retry_failed()


def test_a_group_is_refilled_within_its_budget_and_says_why_it_is_short(tmp_path: Path) -> None:
    scene = Scene(tmp_path, count=3, repeats=4)
    ended: dict[int, list[str]] = {}
    failures = Counter[int]()

    async def worker(item: WorkItem, attempt: int, deadline: float) -> Outcome:
        """Task 1 breaks twice in all, task 2 always in its last repeat."""
        task, repeat = item.task.index, item.repeat
        if (task == 1 and failures[1] < 2) or (task == 2 and repeat == 3):
            failures[task] += 1
            raise ToolError("it broke")
        if task == 0 and repeat == 0 and attempt == 1:
            return Omitted(OmitReason.SKIPPED, "not now")
        return Completed(1.0)

    def note(event: AttemptRecorded, last: bool) -> None:
        if last:
            statuses = (status_of(event.attempt.outcome), str(cause_of(event.attempt.outcome)))
            ended.setdefault(event.attempt.task, []).append("/".join(statuses))

    async def nothing() -> None:
        """The groups heal by themselves."""

    coverage, summary = scene.play(worker, nothing, retry=NO_RETRIES, refills=2, listener=note)
    assert (coverage.completed, coverage.failed, coverage.groups_complete) == (11, 1, 2)
    assert summary.groups.complete == 2
    assert failures == {1: 2, 2: 3}
    assert ended == {0: ["completed/None"], 1: ["completed/None"], 2: ["failed/tool"]}
    assert scene.collector(worker, retry=NO_RETRIES, refills=2).attempts == 0
    coverage = scene.collector(worker, retry=NO_RETRIES, refills=3)
    assert (coverage.attempts, coverage.failed) == (1, 1)


def test_what_failed_while_the_collection_stopped_is_refilled_by_the_next_one(
    scene: Scene,
) -> None:
    stop = Stop()

    async def breaks_at_the_end(item: WorkItem, attempt: int, deadline: float) -> Outcome:
        await scene.worker(item, attempt, deadline)
        raise ToolError("it broke")

    async def act() -> None:
        await scene.until(lambda: scene.running == 4)
        stop.request()
        scene.released.set()

    coverage, _ = scene.play(breaks_at_the_end, act, stop=stop, retry=NO_RETRIES, refills=1)
    assert (coverage.failed, coverage.attempts) == (4, 4)
    coverage = scene.collector(complete, refills=1)
    assert (coverage.completed, coverage.resumed) == (4, 4)


def test_what_was_changed_is_on_disk_with_its_author_and_the_policy_version_is_kept(
    scene: Scene,
) -> None:
    heard: list[str] = []
    scene.control.on_policy_version(lambda version: heard.append(version.version))

    async def act() -> None:
        scene.control.set_policy_version("11", by="ann")
        scene.control.set_policy_version("12", by="ann")
        scene.control.set_policy_version("12", by="ann")
        scene.control.hold("often and by a program")
        scene.control.release("often and by a program")
        scene.control.set_concurrency(2)
        await scene.control.flush()

    scene.play(complete, act)
    directory = scene.collector.directory
    assert [(change.by, str(change)) for change in read_changes(directory)] == [
        ("ann", "policy version=11"),
        ("ann", "policy version=12"),
        ("the program", "concurrency limit=2"),
    ]
    assert heard == ["11", "12"]
    assert [each.version for each in scene.control.policy_versions] == ["11", "12"]
    later = Control()
    Collector(directory)(complete, control=later)
    assert later.policy_version == "12"
    log = directory / "control.jsonl"
    log.write_bytes(log.read_bytes() + b'{"v":1,"time":1')
    Collector(directory)(complete)
    assert len(read_changes(directory)) == 3
    log.write_bytes(log.read_bytes().replace(b'"12"', b'"13"'))
    with pytest.raises(RefusedError, match=r"control.jsonl:2: .*not a valid change"):
        Collector(directory)(complete)


def test_the_last_version_is_the_latest_though_the_clock_was_set_back(scene: Scene) -> None:
    times = iter(range(1000, 0, -1))
    earlier, later = Control(wall_clock=lambda: float(next(times))), Control()
    for version in ("1", "2"):
        earlier.set_policy_version(version)
    for control in (earlier, later):
        Collector(scene.collector.directory)(complete, control=control)
    assert later.policy_version == "2"


def test_a_control_belongs_to_one_collection_and_changes_nothing_after_it(scene: Scene) -> None:
    async def main() -> None:
        assert await scene.control.retry_failed() == 0
        assert await scene.control.cut(lambda _: True, "late") == 0

    scene.collector(complete, control=scene.control)
    run(main())
    assert scene.control.status() is None
    with pytest.raises(RuntimeError, match="one collection"):
        scene.collector(complete, control=scene.control)
