"""Whole collections on real files and the real event loop."""

import asyncio
import contextlib
import errno
import math
import os
import shutil
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rollgym.engine import (
    NO_RETRIES,
    Adaptive,
    Backoff,
    ExitStatus,
    Fixed,
    RetryPolicy,
    RetryRule,
    SourceError,
    Stop,
    StuckWorkersError,
    WorkItem,
    collect,
    run,
)
from rollgym.engine.coverage import Ledger
from rollgym.records import (
    Completed,
    Failed,
    Failure,
    FailureKind,
    ModelAuthError,
    ModelRateLimitError,
    ModelRole,
    ModelUse,
    OmitReason,
    Omitted,
    Outcome,
    Price,
    Prices,
    Span,
    TaskError,
    ToolError,
    Usage,
    VerifierError,
    boundary,
)
from rollgym.store import (
    EVERY_RECORD,
    Disk,
    DiskFullError,
    Status,
    StorageVanishedError,
    open_run,
)
from tests.builders import failed, make_run, tasks
from tests.collecting import Collector, Listed, complete, hang, policy


class np_like(float):  # noqa: N801 - as numpy.float64 is
    """A float by inheritance."""


@pytest.fixture
def collector(tmp_path: Path) -> Collector:
    return Collector(tmp_path / "run")


def test_every_rollout_completes_and_the_same_command_again_runs_nothing(tmp_path: Path) -> None:
    collector = Collector(tmp_path / "run", count=25, repeats=4)
    coverage = collector(complete)
    assert str(coverage) == "100 expected = 100 completed + 0 failed + 0 omitted + 0 unresolved"
    assert coverage.describe_tasks() == "all repeats done for 25 of 25 tasks"
    assert coverage.exit_status is ExitStatus.COMPLETE
    assert len(collector.finals) == 100
    before = collector.lines
    coverage = collector(hang)
    assert (coverage.completed, coverage.resumed, coverage.attempts) == (100, 100, 0)
    assert collector.lines == before
    assert Collector(tmp_path / "empty", count=0)(complete).exit_status is ExitStatus.COMPLETE


def test_no_more_than_the_limit_are_in_flight_and_the_source_is_read_lazily(
    tmp_path: Path,
) -> None:
    limit = 3
    source = Listed(list(tasks(100, 2)))
    in_flight = peak = ahead = started = 0

    async def worker(item: WorkItem, attempt: int, deadline: float) -> Outcome:
        nonlocal in_flight, peak, ahead, started
        in_flight += 1
        started += 1
        peak = max(peak, in_flight)
        ahead = max(ahead, 2 * source.pulled - started)
        await asyncio.sleep(0.001)
        in_flight -= 1
        return Completed(1.0)

    async def main() -> None:
        with make_run(tmp_path, 100, 2) as store:
            await collect(source, worker, store, policy(concurrency=Fixed(limit)))

    run(main())
    assert peak == limit
    assert ahead <= limit + 2


def test_repeats_of_a_task_go_together_and_a_due_retry_goes_before_new_tasks(
    tmp_path: Path,
) -> None:
    order: list[tuple[int, int, int]] = []

    async def worker(item: WorkItem, attempt: int, deadline: float) -> Outcome:
        order.append((item.task.index, item.repeat, attempt))
        await asyncio.sleep(0.01)
        if item.task.index == 0 and attempt == 1:
            raise ToolError("once")
        return Completed(1.0)

    retry = RetryPolicy(default=RetryRule(3, Backoff(0.001, maximum=0.001)), by_kind={})
    Collector(tmp_path, count=5, repeats=3)(worker, concurrency=Fixed(1), retry=retry)
    first = [(task, repeat) for task, repeat, attempt in order if attempt == 1]
    assert first == [(task, repeat) for task in range(5) for repeat in range(3)]
    assert order.index((0, 0, 2)) <= 2


class RudeError(ToolError):
    """An error whose attributes cannot be read."""

    @property
    def retry_after(self) -> float:
        raise KeyError("nothing here")

    @retry_after.setter
    def retry_after(self, _seconds: float) -> None:
        pass


class RudeBase(BaseException):
    pass


async def tool_in_a_task_group() -> Outcome:
    async def call_tool() -> None:
        raise ToolError("the tool broke")

    async with asyncio.TaskGroup() as group:
        group.create_task(call_tool())
        group.create_task(asyncio.sleep(3600))
    return Completed(1.0)


BAD: list[tuple[Any, str, str]] = [
    (KeyError("lost"), "internal", "KeyError: 'lost'"),
    (SystemExit(3), "internal", "SystemExit: 3"),
    (RudeBase("out of the way"), "internal", "RudeBase: out of the way"),
    (RudeError("broke"), "internal", "RudeError, which cannot be read"),
    (asyncio.CancelledError(), "cancelled", "cancelled from outside"),
    (tool_in_a_task_group, "tool", "the tool broke"),
    (None, "internal", "the worker returned NoneType, which is not an outcome"),
    (0.0, "internal", "the worker returned float, which is not an outcome"),
    (Completed(float("nan")), "verifier", "the reward nan is not a finite number"),
    (Completed("1"), "verifier", "the reward '1' is not a finite number"),  # type: ignore[arg-type]
    (Completed(10**400), "verifier", "is not a finite number"),
    (Completed(None), "verifier", "the reward None is not"),  # type: ignore[arg-type]
    (Failed("broke"), "internal", "Failed without a reason"),  # type: ignore[arg-type]
    (Omitted("late"), "internal", "Omitted without a reason"),  # type: ignore[arg-type]
    (Completed(1.0, result=msgspec.Raw(b"{")), "internal", "cannot be written as JSON"),
    (Completed(1.0, measures={"x": "y"}), "internal", "Expected `float`, got `str`"),  # type: ignore[dict-item]
]
GOOD: list[Any] = [Completed(True), Completed(1), Completed(np_like(1.0))]


def test_a_bad_worker_fails_its_rollout_and_no_other(tmp_path: Path) -> None:
    async def worker(item: WorkItem, attempt: int, deadline: float) -> Outcome:
        index = item.task.index
        made: Any = BAD[index][0] if index < len(BAD) else GOOD[index - len(BAD)]
        if isinstance(made, BaseException):
            raise made
        outcome: Outcome = await made() if callable(made) else made
        return outcome

    collector = Collector(tmp_path, count=len(BAD) + len(GOOD))
    coverage = collector(worker, retry=NO_RETRIES)
    assert (coverage.completed, coverage.failed) == (len(GOOD), len(BAD))
    assert coverage.exit_status is ExitStatus.FAILED
    for task, (_, kind, detail) in enumerate(BAD):
        outcome = collector.finals[task, 0]
        assert outcome["failure"]["kind"] == kind
        assert detail in outcome["failure"]["detail"]
        assert "reward" not in outcome
    assert "in test_a_bad_worker" in collector.finals[0, 0]["failure"]["traceback"]
    assert {collector.finals[len(BAD) + n, 0]["reward"] for n in range(len(GOOD))} == {1.0}


def test_a_disk_that_fails_under_workers_stops_the_collection_and_burns_no_attempt(
    collector: Collector,
) -> None:
    async def worker(item: WorkItem, attempt: int, deadline: float) -> Outcome:
        raise DiskFullError("the disk is full")

    with pytest.raises(DiskFullError, match="the disk is full"):
        collector(worker)
    assert collector.finals == {}
    assert collector(complete).completed == 4


def test_a_worker_that_is_not_a_coroutine_function_fails(collector: Collector) -> None:
    def worker(item: WorkItem, attempt: int, deadline: float) -> Any:
        return Completed(1.0)

    assert collector(worker).failed == 4


def test_a_failure_keeps_the_partial_result_and_the_error_of_the_cleanup(
    collector: Collector,
) -> None:
    partial = Failed(
        failed().failure,
        phases={"model": 1.5},
        spans=(Span("model", 0.5, 1.5),),
        result=msgspec.Raw(b'{"steps":9}'),
    )

    async def worker(item: WorkItem, attempt: int, deadline: float) -> Outcome:
        if item.task.index == 0:
            return partial
        try:
            await asyncio.sleep(3600)
        finally:
            raise KeyError("cleanup")

    collector(worker, attempt_timeout=0.02, retry=NO_RETRIES, cancel_grace=10.0)
    kept = collector.finals[0, 0]
    assert (kept["result"], kept["phases"]) == ({"steps": 9}, {"model": 1.5})
    assert kept["spans"] == [{"phase": "model", "start": 0.5, "seconds": 1.5}]
    failure = collector.finals[1, 0]["failure"]
    assert failure["kind"] == "timeout"
    assert failure["causes"][0]["message"] == "KeyError: 'cleanup'"
    assert "worker" in failure["traceback"]


def test_a_bug_that_appears_twice_is_terminal_and_other_errors_are_retried(
    collector: Collector,
) -> None:
    errors: dict[int, list[Exception]] = {
        0: [KeyError("a"), KeyError("b"), KeyError("c"), KeyError("d")],
        1: [KeyError("a"), ValueError("b"), KeyError("c"), ValueError("d")],
        2: [ConnectionResetError()] * 4,
        3: [KeyError("a")],
    }

    async def worker(item: WorkItem, attempt: int, deadline: float) -> Outcome:
        with boundary(VerifierError):
            for error in errors[item.task.index][attempt - 1 : attempt]:
                raise error
        return Completed(1.0)

    rule = RetryRule(4, Backoff(initial=0.001, maximum=0.01))
    coverage = collector(worker, retry=RetryPolicy(default=rule, by_kind={}))
    attempts = Counter(line["task"] for line in collector.lines)
    assert attempts == {0: 2, 1: 3, 2: 4, 3: 2}
    assert (coverage.failed, coverage.completed) == (3, 1)
    failure = collector.finals[0, 0]["failure"]
    assert (failure["exception"], failure["file"]) == ("KeyError", __file__)
    assert "retryable" not in failure
    assert "an earlier attempt failed at the same line" in failure["detail"]
    assert collector.finals[2, 0]["failure"]["retryable"]


class TestDeadlines:
    def test_an_attempt_past_its_deadline_is_a_timeout(self, collector: Collector) -> None:
        coverage = collector(hang, attempt_timeout=0.05, retry=NO_RETRIES)
        assert (coverage.failed, coverage.abandoned) == (4, 0)
        assert collector.finals[0, 0]["failure"]["kind"] == "timeout"
        assert "no end after 0." in collector.finals[0, 0]["failure"]["detail"]

    def test_the_worker_knows_its_deadline(self, collector: Collector) -> None:
        left: list[float] = []

        async def worker(item: WorkItem, attempt: int, deadline: float) -> Outcome:
            left.append(deadline - asyncio.get_running_loop().time())
            return Completed(1.0)

        collector(worker, attempt_timeout=30.0, rollout_timeout=20.0)
        assert all(0 < seconds <= 20 for seconds in left)

    def test_a_rollout_is_not_retried_past_its_own_deadline(self, collector: Collector) -> None:
        retry = RetryPolicy(default=RetryRule(1000, Backoff(0.02, factor=1.0)), by_kind={})

        async def worker(item: WorkItem, attempt: int, deadline: float) -> Outcome:
            raise ToolError("again")

        coverage = collector(worker, rollout_timeout=0.3, retry=retry)
        assert coverage.failed == 4
        assert 4 <= coverage.attempts < 4 * 40

    def test_a_worker_that_ignores_its_cancellation_is_abandoned(
        self, collector: Collector
    ) -> None:
        stubborn = Stubborn(lambda item: item.task.index == 1)
        coverage = collector(stubborn, attempt_timeout=0.05, retry=NO_RETRIES)
        assert (coverage.completed, coverage.failed, coverage.abandoned) == (3, 1, 1)
        detail = collector.finals[1, 0]["failure"]["detail"]
        assert detail.endswith("; it ignored its cancellation for 0.05 s")

    def test_a_worker_that_ends_just_as_it_is_given_up_is_not_abandoned(
        self, collector: Collector
    ) -> None:
        async def worker(item: WorkItem, attempt: int, deadline: float) -> Outcome:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                time.sleep(0.1)  # noqa: ASYNC251 - past the end of its grace, without giving way
            return Completed(0.5)

        coverage = collector(worker, attempt_timeout=0.02, cancel_grace=0.05)
        assert (coverage.completed, coverage.abandoned) == (4, 0)

    def test_too_many_abandoned_workers_stop_the_run(self, tmp_path: Path) -> None:
        stubborn = Stubborn(lambda item: item.task.index >= 5)
        options: dict[str, Any] = {"attempt_timeout": 0.01, "retry": NO_RETRIES}
        enough = Collector(tmp_path / "enough", count=11)(stubborn, max_abandoned=6, **options)
        assert (enough.completed, enough.abandoned) == (5, 6)
        collector = Collector(tmp_path / "run", count=12)
        with pytest.raises(StuckWorkersError, match="do not swallow asyncio.CancelledError"):
            collector(stubborn, max_abandoned=6, **options)
        assert sum(line["outcome"]["status"] == "completed" for line in collector.lines) == 5
        assert len(collector.lines) <= 5 + 7

    def test_abandoned_workers_that_end_later_count_no_more(self, tmp_path: Path) -> None:
        may_end = [asyncio.Event() for _ in range(9)]

        async def worker(item: WorkItem, attempt: int, deadline: float) -> Outcome:
            index = item.task.index
            if index % 2 == 0:
                may_end[index - 1].set()  # the one before, which was abandoned
                await asyncio.sleep(3600)
            while not may_end[index].is_set():
                with contextlib.suppress(asyncio.CancelledError):
                    await may_end[index].wait()
            return Completed(1.0)

        coverage = Collector(tmp_path, count=9)(
            worker,
            concurrency=Fixed(1),
            attempt_timeout=0.1,
            cancel_grace=0.01,
            retry=NO_RETRIES,
            max_abandoned=1,
        )
        assert (coverage.failed, coverage.abandoned) == (9, 4)

    def test_what_completes_while_it_is_cancelled_is_kept(self, collector: Collector) -> None:
        async def worker(item: WorkItem, attempt: int, deadline: float) -> Outcome:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                return Completed(0.5)
            return Completed(0.0)

        coverage = collector(worker, attempt_timeout=0.02, cancel_grace=1.0)
        assert coverage.completed == 4
        assert collector.finals[0, 0]["reward"] == 0.5


class Stubborn:
    """A worker that swallows its first cancellation for the items that `swallows` accepts.

    The second cancellation, at the end of the event loop, ends it.
    """

    def __init__(self, swallows: Callable[[WorkItem], bool]) -> None:
        self._swallows = swallows

    async def __call__(self, item: WorkItem, attempt: int, deadline: float) -> Outcome:
        if self._swallows(item):
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(3600)
            await asyncio.sleep(3600)
        return Completed(1.0)


class TestRetries:
    def test_failed_attempts_are_journaled_before_the_next_begins(
        self, collector: Collector
    ) -> None:
        seen: list[int] = []

        async def worker(item: WorkItem, attempt: int, deadline: float) -> Outcome:
            mine = [line for line in collector.lines if line["task"] == item.task.index]
            seen.append(len(mine))
            assert len(mine) == attempt - 1
            if attempt < 3:
                raise ToolError(f"attempt {attempt}")
            return Completed(1.0)

        coverage = collector(worker)
        assert (coverage.completed, coverage.attempts) == (4, 12)
        history = [line for line in collector.lines if line["task"] == 0]
        assert [(line["attempt"], line["final"]) for line in history] == [
            (1, False),
            (2, False),
            (3, True),
        ]
        assert history[0]["outcome"]["failure"]["detail"] == "attempt 1"

    def test_the_number_of_attempts_is_bounded_by_kind(self, collector: Collector) -> None:
        """A terminal failure has one attempt; nonsense in `retry_after` changes nothing."""

        async def worker(item: WorkItem, attempt: int, deadline: float) -> Outcome:
            if item.task.index == 0:
                raise TaskError("no such page")
            if item.task.index == 1:
                raise ToolError("broke")
            if item.task.index == 2:
                raise ModelRateLimitError("come back tomorrow", retry_after=86400.0)
            wait: Any = [math.nan, -5.0, math.inf, "5", 10**400][attempt - 1]
            raise ModelRateLimitError("slow down", retry_after=wait)

        quick = Backoff(0.001, maximum=0.001)
        rules = {FailureKind.MODEL_RATE_LIMIT: RetryRule(5, quick)}
        coverage = collector(worker, retry=RetryPolicy(default=RetryRule(2, quick), by_kind=rules))
        assert (coverage.failed, coverage.attempts) == (4, 1 + 2 + 1 + 5)

    def test_retry_after_is_honoured(self, collector: Collector) -> None:
        times: dict[int, list[float]] = {}

        async def worker(item: WorkItem, attempt: int, deadline: float) -> Outcome:
            times.setdefault(item.task.index, []).append(time.monotonic())
            if attempt == 1:
                raise ModelRateLimitError("slow down", retry_after=0.3)
            return Completed(1.0)

        collector(worker)
        assert all(second - first >= 0.29 for first, second in times.values())

    def test_the_retries_of_the_whole_run_are_bounded(self, tmp_path: Path) -> None:
        async def worker(item: WorkItem, attempt: int, deadline: float) -> Outcome:
            raise ToolError("down")

        retry = RetryPolicy(
            default=RetryRule(10, Backoff(0.001, maximum=0.001)), by_kind={}, max_retries=7
        )
        coverage = Collector(tmp_path, count=20)(worker, retry=retry)
        assert (coverage.failed, coverage.attempts) == (20, 27)

    def test_during_an_outage_the_open_rollouts_stay_bounded(self, tmp_path: Path) -> None:
        source = Listed(list(tasks(1000)))
        stop = Stop()

        async def worker(item: WorkItem, attempt: int, deadline: float) -> Outcome:
            raise ModelRateLimitError("down", retry_after=60.0)

        async def main() -> None:
            asyncio.get_running_loop().call_later(0.1, stop.request)
            with make_run(tmp_path, 1000) as store:
                coverage = await collect(source, worker, store, policy(), stop=stop)
            assert coverage.unresolved == 1000

        run(main())
        assert source.pulled <= 4 * 2 + 1


class TestSameFailures:
    def test_a_collection_stops_when_nothing_but_one_failure_comes_back(
        self, tmp_path: Path
    ) -> None:
        collector = Collector(tmp_path, count=100)

        async def worker(item: WorkItem, attempt: int, deadline: float) -> Outcome:
            if item.task.index < 3:
                return Completed(1.0)
            raise ModelAuthError(f"answered 401 to {item.task.index}: invalid key")

        coverage = collector(worker)
        assert coverage.exit_status is ExitStatus.STOPPED
        assert 25 <= coverage.failed <= 25 + 4
        assert coverage.unresolved == 97 - coverage.failed
        assert coverage.stopped is not None
        assert coverage.stopped.startswith("25 rollouts in a row failed alike (model_auth: ")
        assert coverage.stopped.endswith("What to do: check the key of the model endpoint")
        again = collector(complete)
        assert (again.completed, again.failed, again.stopped) == (
            *(100 - coverage.failed, coverage.failed),
            None,
        )

    def test_it_goes_on_where_failures_differ_or_something_works(self, tmp_path: Path) -> None:
        async def mixed(item: WorkItem, attempt: int, deadline: float) -> Outcome:
            if item.task.index % 20 == 19:
                return Completed(1.0)
            raise ModelAuthError("invalid key")

        async def different(item: WorkItem, attempt: int, deadline: float) -> Outcome:
            raise TaskError(f"no such colour: {'a' * item.task.index}")

        async def same(item: WorkItem, attempt: int, deadline: float) -> Outcome:
            raise TaskError("no such colour")

        for number, (worker, most) in enumerate(((mixed, 25), (different, 25), (same, 0))):
            collector = Collector(tmp_path / str(number), count=60)
            coverage = collector(worker, max_same_failures=most)
            assert (coverage.unresolved, coverage.stopped) == (0, None)


class TestBudget:
    def test_the_run_stops_at_its_limit_and_goes_on_with_a_higher_one(self, tmp_path: Path) -> None:
        """What earlier processes and failed attempts used counts too."""

        async def worker(item: WorkItem, attempt: int, deadline: float) -> Outcome:
            if item.task.index == 0 and attempt == 1:
                failure = Failure(FailureKind.TOOL, "lost", retryable=False)
                return Failed(failure, models=(ModelUse("m", usage=Usage(900, 100)),))
            judged = ModelUse("j", ModelRole.JUDGE, usage=Usage(50, 50))
            return Completed(1.0, models=(ModelUse("m", usage=Usage(90, 10)), judged))

        prices = Prices({"m": Price(input=1.0, output=10.0)})
        collector = Collector(tmp_path, count=20)
        once: dict[str, Any] = {"concurrency": Fixed(1), "prices": prices}
        first = collector(worker, max_tokens=1_600, **once)
        assert (first.completed, first.failed, first.unresolved) == (3, 1, 16)
        assert first.exit_status == ExitStatus.STOPPED
        assert "1,600 tokens" in str(first.stopped)
        assert collector(worker, max_tokens=1_600, **once).attempts == 0
        # A dollar per million in, ten out: 1,900 millionths at first, then 190 for each rollout.
        second = collector(worker, max_cost=0.002849, **once)
        assert (second.completed, second.attempts) == (5, 2)
        assert "max_cost" in str(second.stopped)
        assert collector(worker, **once).unresolved == 0


class TestStragglers:
    def test_the_rest_is_omitted_after_the_grace_period(self, tmp_path: Path) -> None:
        """Also the rollouts that never started."""
        collector = Collector(tmp_path, count=20)
        started = time.monotonic()

        async def worker(item: WorkItem, attempt: int, deadline: float) -> Outcome:
            return await (complete if item.task.index < 10 else hang)(item, attempt, deadline)

        coverage = collector(worker, completion_threshold=0.5, completion_grace_period=0.2)
        assert time.monotonic() - started >= 0.2
        assert (coverage.completed, coverage.omitted, coverage.unresolved) == (10, 10, 0)
        assert coverage.exit_status is ExitStatus.OMITTED
        assert collector.finals[13, 0]["reason"] == "straggler"
        assert collector(hang).attempts == 0

    def test_the_grace_period_lets_the_slow_ones_finish(self, tmp_path: Path) -> None:
        async def worker(item: WorkItem, attempt: int, deadline: float) -> Outcome:
            await asyncio.sleep(0.2 if item.task.index == 3 else 0)
            return Completed(1.0)

        coverage = Collector(tmp_path)(
            worker, completion_threshold=0.75, completion_grace_period=60.0
        )
        assert coverage.exit_status is ExitStatus.COMPLETE

    def test_a_straggler_keeps_its_partial_result_or_is_abandoned(
        self, collector: Collector
    ) -> None:
        async def worker(item: WorkItem, attempt: int, deadline: float) -> Outcome:
            if item.task.index > 1:
                return Omitted(OmitReason.SKIPPED, "blocked domain")
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                if item.task.index == 0:
                    return Failed(failed().failure, result=msgspec.Raw(b'{"steps":5}'))
                await asyncio.sleep(3600)
            return Completed(1.0)

        coverage = collector(worker, completion_threshold=0.5, completion_grace_period=0.0)
        assert (coverage.omitted, coverage.abandoned) == (4, 1)
        assert collector.finals[0, 0]["status"] == "omitted"
        assert collector.finals[0, 0]["result"] == {"steps": 5}
        assert collector.finals[3, 0]["reason"] == "skipped"


class TestStopping:
    def test_once_finishes_what_is_in_flight_and_begins_nothing(self, tmp_path: Path) -> None:
        collector = Collector(tmp_path, count=100)
        stop = Stop()

        async def worker(item: WorkItem, attempt: int, deadline: float) -> Outcome:
            if item.task.index == 10:
                stop.request()
            await asyncio.sleep(0.05)
            return Completed(1.0)

        coverage = collector(worker, stop=stop)
        assert 10 <= coverage.completed <= 14
        assert coverage.completed + coverage.unresolved == 100
        assert coverage.exit_status is ExitStatus.INTERRUPTED
        resumed = collector(complete)
        assert (resumed.completed, resumed.attempts) == (100, 100 - coverage.completed)
        assert len(collector.finals) == 100

    def test_what_only_waits_is_not_let_begin(self, collector: Collector) -> None:
        stop = Stop()

        async def worker(item: WorkItem, attempt: int, deadline: float) -> Outcome:
            if item.task.index == 0:
                stop.request()
                await asyncio.sleep(0.1)
                return Completed(1.0)
            await asyncio.sleep(3600)
            return Completed(1.0)

        coverage = collector(worker, stop=stop, waits=lambda key: key.task > 0, drain_timeout=60.0)
        assert (coverage.completed, coverage.unresolved) == (1, 3)

    def test_twice_stops_now_and_keeps_what_finished(self, collector: Collector) -> None:
        stop = Stop()

        async def worker(item: WorkItem, attempt: int, deadline: float) -> Outcome:
            if item.task.index == 0:
                return Completed(1.0)
            if item.task.index == 3:
                stop.request()
                stop.request()
            await asyncio.sleep(3600)
            return Completed(1.0)

        coverage = collector(worker, stop=stop, drain_timeout=60.0)
        assert (coverage.completed, coverage.unresolved) == (1, 3)
        assert len(collector.lines) == 1

    def test_draining_is_bounded(self, collector: Collector) -> None:
        stop = Stop()

        async def worker(item: WorkItem, attempt: int, deadline: float) -> Outcome:
            if item.task.index == 0:
                stop.request()
            await asyncio.sleep(3600)
            return Completed(1.0)

        coverage = collector(worker, stop=stop, drain_timeout=0.1)
        assert coverage.unresolved == 4

    def test_stopping_is_bounded_when_workers_ignore_it(self, collector: Collector) -> None:
        stop = Stop()

        async def worker(item: WorkItem, attempt: int, deadline: float) -> Outcome:
            if item.task.index == 3:
                stop.request()
                stop.request()
            return await Stubborn(lambda _: True)(item, attempt, deadline)

        coverage = collector(worker, stop=stop)
        assert (coverage.unresolved, coverage.abandoned) == (4, 4)

    def test_rollouts_waiting_for_a_retry_go_on_where_they_were(self, collector: Collector) -> None:
        stop = Stop()

        async def fail(item: WorkItem, attempt: int, deadline: float) -> Outcome:
            if item.task.index == 3:
                stop.request()
            raise ToolError("broke")

        slow = RetryPolicy(default=RetryRule(2, Backoff(600.0, maximum=600.0)), by_kind={})
        assert collector(fail, stop=stop, retry=slow).unresolved == 4
        attempts: list[int] = []

        async def worker(item: WorkItem, attempt: int, deadline: float) -> Outcome:
            attempts.append(attempt)
            raise ToolError("broke again")

        coverage = collector(worker, retry=slow)
        assert attempts == [2, 2, 2, 2]
        assert coverage.failed == 4


def test_a_store_is_collected_once(tmp_path: Path) -> None:
    async def main() -> None:
        with make_run(tmp_path) as store:
            await collect(store.inputs, complete, store, policy())
            with pytest.raises(RuntimeError, match="open the run again"):
                await collect(store.inputs, complete, store, policy())

    run(main())
    assert len(Collector(tmp_path).finals) == 4


class TestReopening:
    def test_failed_rollouts_run_again_when_asked(self, collector: Collector) -> None:
        async def worker(item: WorkItem, attempt: int, deadline: float) -> Outcome:
            if item.task.index < 2:
                raise TaskError("broke")
            return Completed(1.0)

        assert collector(worker).failed == 2
        assert collector(hang).attempts == 0
        coverage = collector(complete, reopen=[Status.FAILED])
        assert (coverage.completed, coverage.failed, coverage.groups_complete) == (4, 0, 4)
        assert (coverage.resumed, coverage.attempts) == (4, 2)
        assert [line["attempt"] for line in collector.lines if line["task"] == 0] == [1, 2]

    def test_an_interrupted_rerun_keeps_the_old_outcome(self, collector: Collector) -> None:
        async def broken(item: WorkItem, attempt: int, deadline: float) -> Outcome:
            raise TaskError("broke")

        collector(broken)
        stop = Stop()
        stop.request()
        coverage = collector(hang, reopen=[Status.FAILED], stop=stop)
        assert (coverage.failed, coverage.unresolved) == (4, 0)
        assert collector(hang).failed == 4


class FillingDisk(Disk):
    """Has room for some records."""

    def __init__(self, records: int) -> None:
        super().__init__()
        self.room = records

    def write(self, descriptor: int, data: bytes) -> int:
        if b'"outcome"' in data:
            records = data.splitlines(keepends=True)
            whole, self.room = records[: self.room], max(0, self.room - len(records))
            if len(whole) < len(records):
                super().write(descriptor, b"".join(whole) + records[len(whole)][:20])
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(descriptor, data)


class TestBrokenStorage:
    def test_a_full_disk_stops_the_run_and_loses_nothing(self, tmp_path: Path) -> None:
        collector = Collector(tmp_path, count=50)
        again = "free some space and run the same command again"
        with pytest.raises(DiskFullError, match=again) as stopped:
            collector(complete, disk=FillingDisk(20))
        assert "Rollouts when it stopped: 50 expected = " in stopped.value.__notes__[-1]
        assert len(collector.finals) == 20
        coverage = collector(complete)
        assert (coverage.completed, coverage.attempts) == (50, 30)
        assert len(collector.finals) == 50

    def test_a_vanished_directory_stops_the_run(self, tmp_path: Path) -> None:
        collector = Collector(tmp_path / "run", count=1000)

        async def worker(item: WorkItem, attempt: int, deadline: float) -> Outcome:
            if item.task.index == 20:
                shutil.rmtree(tmp_path / "run")
            await asyncio.sleep(0.005)
            return Completed(1.0)

        with pytest.raises(StorageVanishedError, match="moved or deleted during the run"):
            collector(worker)

    def test_workers_are_cancelled_when_the_store_fails(self, collector: Collector) -> None:
        cancelled: list[int] = []

        async def worker(item: WorkItem, attempt: int, deadline: float) -> Outcome:
            if item.task.index == 0:
                await asyncio.sleep(0.01)
                return Completed(1.0)
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                cancelled.append(item.task.index)
                raise
            return Completed(1.0)

        with pytest.raises(DiskFullError):
            collector(worker, disk=FillingDisk(0))
        assert sorted(cancelled) == [1, 2, 3]


class TestSources:
    def test_a_failing_source_lets_what_is_in_flight_finish(self, tmp_path: Path) -> None:
        class Failing(Listed):
            def __iter__(self) -> Any:
                yield from list(super().__iter__())[:3]
                raise ValueError("tasks.jsonl:4: bad row")

        async def worker(item: WorkItem, attempt: int, deadline: float) -> Outcome:
            await asyncio.sleep(0.05)
            return Completed(1.0)

        async def main() -> None:
            with make_run(tmp_path, 10) as store:
                await collect(Failing(list(tasks(10))), worker, store, policy())

        with pytest.raises(SourceError, match="tasks.jsonl:4: bad row"):
            run(main())
        assert len(Collector(tmp_path).finals) == 3

    def test_a_source_that_gives_less_than_it_promised_is_an_error(self, tmp_path: Path) -> None:
        source = Listed(list(tasks(10)))
        source.expected = 12

        async def main() -> None:
            with make_run(tmp_path, 10) as store:
                await collect(source, complete, store, policy())

        with pytest.raises(
            SourceError, match="announced 12 rollouts of 10 tasks but gave 10 of 10"
        ):
            run(main())
        assert len(Collector(tmp_path).finals) == 10


def test_a_bug_in_the_engine_stops_the_run_loudly(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Ledger, "acknowledge", broken)
    with pytest.raises(ZeroDivisionError):
        collector(complete)


def test_cancelling_the_collection_cancels_its_workers(collector: Collector) -> None:
    ended: list[int] = []

    async def worker(item: WorkItem, attempt: int, deadline: float) -> Outcome:
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append(item.task.index)
        return Completed(1.0)

    async def main() -> None:
        collecting = asyncio.create_task(collector.collect(worker))
        await asyncio.sleep(0.05)
        collecting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await collecting

    run(main())
    assert sorted(ended) == [0, 1, 2, 3]


@pytest.mark.campaign
def test_ten_thousand_in_flight_at_once(tmp_path: Path) -> None:
    together = asyncio.Event()
    in_flight = 0

    async def worker(item: WorkItem, attempt: int, deadline: float) -> Outcome:
        nonlocal in_flight
        in_flight += 1
        if in_flight == 10_000:
            together.set()
        await together.wait()
        return Completed(1.0)

    coverage = Collector(tmp_path, count=10_000)(
        worker, concurrency=Fixed(10_000), attempt_timeout=60.0
    )
    assert coverage.completed == 10_000


def test_adaptive_concurrency_collects_everything(tmp_path: Path) -> None:
    async def worker(item: WorkItem, attempt: int, deadline: float) -> Outcome:
        await asyncio.sleep(0.002)
        return Completed(1.0)

    coverage = Collector(tmp_path, count=200)(worker, concurrency=Adaptive(initial=2, maximum=64))
    assert coverage.completed == 200


def test_many_resumed_rollouts_do_not_hold_up_the_loop(tmp_path: Path) -> None:
    """Skipping finished rollouts lets other tasks run between chunks."""
    count = 5_000
    Collector(tmp_path, count=count)(complete, concurrency=Fixed(256))
    turns = 0

    async def tick() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async def main() -> None:
        with open_run(tmp_path, tasks(count)) as store:
            ticking = asyncio.create_task(tick())
            coverage = await collect(store.inputs, complete, store, policy())
            ticking.cancel()
        assert (coverage.completed, coverage.attempts) == (count, 0)

    run(main())
    assert turns >= count // 1000


class DiskThatWaits(Disk):
    def __init__(self) -> None:
        super().__init__()
        self.syncing = asyncio.Event()
        self.may_go_on = asyncio.Event()

    async def sync_in_background(self, descriptor: int) -> None:
        self.syncing.set()
        await self.may_go_on.wait()
        await super().sync_in_background(descriptor)


def test_a_worker_that_ended_while_the_loop_waited_for_a_sync_is_not_abandoned(
    tmp_path: Path,
) -> None:
    disk, grace, both_cancelled = DiskThatWaits(), 0.3, asyncio.Event()

    async def worker(item: WorkItem, attempt: int, deadline: float) -> Outcome:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            if item.task.index == 0:
                await both_cancelled.wait()
                raise
            both_cancelled.set()
            await disk.syncing.wait()
            await asyncio.sleep(grace)
            disk.may_go_on.set()
        return Completed(1.0)

    coverage = Collector(tmp_path / "run", count=2)(
        worker,
        disk=disk,
        sync=EVERY_RECORD,
        attempt_timeout=0.1,
        cancel_grace=grace,
        max_abandoned=0,
        retry=NO_RETRIES,
    )
    assert (coverage.completed, coverage.failed, coverage.abandoned) == (1, 1, 0)
