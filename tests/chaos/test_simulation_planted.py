"""Each of these planted bugs is found within a few hundred seeds, at least one for each promise."""

import asyncio
import re
from itertools import count
from typing import Any

import msgspec
import pytest

from rollgym.engine import RetryPolicy, admission
from rollgym.engine.collection import Collection
from rollgym.engine.concurrency import FixedLimit
from rollgym.engine.early_end import EarlyEnd
from rollgym.engine.supervisor import Supervisor
from rollgym.engine.work import Halt, OpenRollout
from rollgym.metrics import Metrics
from rollgym.records import Attempt, Completed, Failed, Failure, Outcome, RecordState
from rollgym.store import Progress, RunStore, journal, opening
from rollgym.store.journal import GroupCommit
from rollgym.store.run import AppendedRecord
from tests.simulation.disk import SimulatedDisk
from tests.simulation.invariants import Violation
from tests.simulation.simulate import plan_of, simulate

MOST_SEEDS = 400


def assert_found(promise: int, seen: str, make_disk: type[SimulatedDisk] = SimulatedDisk) -> None:
    """Some seed shows a violation of this promise in these words."""
    others = []
    for seed in range(MOST_SEEDS):
        try:
            simulate(plan_of(seed), make_disk)
        except Violation as violation:
            if violation.promise == promise and re.search(seen, str(violation)):
                return
            others.append(str(violation))
    pytest.fail(f"{MOST_SEEDS} seeds did not show the planted bug, but {others[:5]}")


def test_a_disk_that_lies_about_its_syncs_is_found() -> None:
    class LyingDisk(SimulatedDisk):
        async def sync_in_background(self, descriptor: int) -> None:
            await asyncio.sleep(0)

    assert_found(1, "bytes of the journal were synced", LyingDisk)


@pytest.mark.campaign
def test_counting_before_the_sync_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def flush(self: GroupCommit) -> None:
        async with self._sync_lock:
            appended, before = self._journal.appended, self._durable
            self._dirty.clear()
            if appended > before:
                self._durable = appended
                self._acknowledge(appended - before)
                await self._journal.sync()

    monkeypatch.setattr(GroupCommit, "flush", flush)
    assert_found(1, "bytes of the journal were synced")


@pytest.mark.campaign
def test_a_resume_that_forgets_what_there_is_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def note(_self: Progress, _attempt: Attempt, *, current: bool) -> RecordState:
        return RecordState.CURRENT if current else RecordState.SUPERSEDED

    monkeypatch.setattr(Progress, "note", note)
    assert_found(1, "which had its outcome")


def test_a_torn_record_left_in_the_journal_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "whole_lines", lambda _descriptor, size: size)
    assert_found(3, "CorruptJournalError")


def test_a_failure_turned_into_a_reward_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    reap = Supervisor.reap

    def generous(self: Supervisor, rollout: OpenRollout) -> Outcome | None:
        outcome = reap(self, rollout)
        return Completed(0.0) if isinstance(outcome, Failed) else outcome

    monkeypatch.setattr(Supervisor, "reap", generous)
    assert_found(2, "recorded .* completed 0.0 .* but the worker returned None")


@pytest.mark.campaign
def test_failed_attempts_left_out_of_the_journal_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    append = RunStore.append

    def forgetful(self: RunStore, attempt: Attempt) -> AppendedRecord:
        if isinstance(attempt.outcome, Failed) and not attempt.final:
            return AppendedRecord(attempt, 0, 0)
        return append(self, attempt)

    monkeypatch.setattr(RunStore, "append", forgetful)
    assert_found(4, r"recorded .* after attempt")


def test_waiting_for_ever_for_a_cancelled_worker_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def halt(self: Supervisor, rollout: OpenRollout, why: Halt) -> None:
        if rollout.task is not None and rollout.halt is None:
            rollout.halt = why
            self._stop_timer(rollout)
            rollout.task.cancel()

    monkeypatch.setattr(Supervisor, "halt", halt)
    assert_found(3, "DeadlockError")


@pytest.mark.campaign
def test_retries_without_a_budget_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def delay(_self: RetryPolicy, failure: Failure, _attempts: int, _seed: int) -> float | None:
        return 0.1 if failure.retryable else None

    monkeypatch.setattr(RetryPolicy, "delay", delay)
    assert_found(3, "goes on after .* attempts")


@pytest.mark.campaign
def test_a_limit_that_is_off_by_one_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def make(self: FixedLimit, limit: int) -> None:
        self.current = limit + 1

    monkeypatch.setattr(FixedLimit, "__init__", make)
    assert_found(3, "in flight at")


def test_seeds_that_depend_on_when_they_are_drawn_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = count()
    monkeypatch.setattr(admission, "derive_seed", lambda *_about: next(clock))
    assert_found(5, "gave .* the seed")


@pytest.mark.campaign
def test_a_drain_without_an_end_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EarlyEnd, "_end_draining", lambda _self: None)
    assert_found(3, "to end after stop 1")


@pytest.mark.campaign
def test_a_grace_period_cut_short_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    policy_of = Collection.__init__

    def hasty(self: Collection, **arguments: Any) -> None:
        policy = arguments["policy"]
        assert isinstance(policy, msgspec.Struct)
        hasty_policy = msgspec.structs.replace(policy, completion_grace_period=0.0)
        policy_of(self, **{**arguments, "policy": hasty_policy})

    monkeypatch.setattr(Collection, "__init__", hasty)
    assert_found(3, "omitted a straggler at")


@pytest.mark.campaign
def test_a_source_read_at_once_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "_guarded", list)
    assert_found(3, "rollouts still to begin")


def test_a_resume_under_another_identity_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "require_same", lambda *_arguments: None)
    assert_found(4, "was not refused")


@pytest.mark.campaign
def test_metrics_that_count_a_replaced_outcome_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Metrics, "retract", lambda _self, _outcome, _successor: None)
    assert_found(2, "and on disk there is .*Summary")


@pytest.mark.campaign
def test_a_budget_for_refills_that_a_crash_resets_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    note = Progress.note

    def forgetful(self: Progress, attempt: Attempt, *, current: bool) -> RecordState:
        state = note(self, attempt, current=current)
        self._reruns.clear()
        return state

    monkeypatch.setattr(Progress, "note", forgetful)
    assert_found(1, "which had its outcome")


@pytest.mark.campaign
def test_a_group_that_is_over_before_its_refill_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Progress, "is_reopened", lambda *_: False)
    assert_found(1, "after task .* was over|said twice")
