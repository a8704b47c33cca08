"""Attempts in flight: started, cancelled at their deadline, and abandoned if they do not end.

A task group waits for its children without bound. A worker is plug-in code and may swallow its
cancellation, so attempts are not children of a task group: each is a task with a deadline, and one
that has not ended `cancel_grace` after its cancellation is abandoned. It keeps running, ignored,
and the number of abandoned tasks is bounded.

Callbacks of the event loop only post a message; the collection's one loop acts on it. An error in
the engine's own logic therefore always surfaces there and never disappears in a callback.
"""

import asyncio
import contextlib
import math
from collections.abc import Callable
from enum import Enum
from functools import partial

from rollgym.engine.outcomes import omitted, outcome_of_attempt, timed_out
from rollgym.engine.policy import Policy
from rollgym.engine.work import EncodedAttempt, Halt, OpenRollout, StuckWorkersError, Worker
from rollgym.records import (
    Completed,
    Failed,
    Failure,
    FailureKind,
    OmitReason,
    Omitted,
    Outcome,
    RolloutKey,
)
from rollgym.store import InFlightMarks


class Signal(Enum):
    """What a callback reports about a rollout's present attempt."""

    ENDED = "ended"
    DEADLINE = "deadline"
    WILL_NOT_END = "will not end"


Post = Callable[[Signal, OpenRollout], None]
_OMITTED = {
    Halt.CUT: OmitReason.CUT,
    Halt.STALE: OmitReason.STALE,
    Halt.STRAGGLER: OmitReason.STRAGGLER,
}


class Supervisor:
    """The attempts in flight."""

    def __init__(self, worker: Worker, policy: Policy, post: Post, marks: InFlightMarks) -> None:
        # A dict for its order: rollouts are always treated in the order they started.
        self.in_flight: dict[OpenRollout, None] = {}
        self.abandoned = 0
        # Referenced here, because the event loop itself holds tasks only weakly.
        self._abandoned_tasks: set[asyncio.Task[Outcome]] = set()
        self._worker = worker
        self._policy = policy
        self._post = post
        self._marks = marks
        self._loop = asyncio.get_running_loop()
        self._halted: Halt | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = math.inf

    def start(self, rollout: OpenRollout, wall: float) -> None:
        """Start the rollout's next attempt."""
        now = self._loop.time()
        if rollout.expires is None:
            rollout.expires = now + self._policy.rollout_timeout
        deadline = min(now + self._policy.attempt_timeout, rollout.expires)
        rollout.attempt += 1
        rollout.spent += 1
        rollout.started = now
        rollout.started_wall = wall
        rollout.halt, rollout.encoded = None, None
        rollout.task = task = self._loop.create_task(self._work(rollout, deadline))
        task.add_done_callback(partial(self._done, rollout))
        rollout.deadline = deadline
        if deadline < self._alarm_at:
            self._set_alarm(deadline)
        self.in_flight[rollout] = None
        rollout.slot = self._marks.enter(rollout.item.task.index, rollout.item.repeat)

    def time_out(self, key: RolloutKey, attempt: int) -> None:
        """Treat an attempt as one at its deadline, if it is running."""
        for rollout in self.in_flight:
            if rollout.item.key == key and rollout.attempt == attempt and rollout.halt is None:
                self._post(Signal.DEADLINE, rollout)

    def request_timeout(self, key: RolloutKey, attempt: int) -> None:
        """As `time_out`, from any thread."""
        with contextlib.suppress(RuntimeError):  # the loop is closed already
            self._loop.call_soon_threadsafe(self.time_out, key, attempt)

    def halt(self, rollout: OpenRollout, why: Halt, detail: str = "") -> bool:
        """Cancel the present attempt; it is abandoned unless it ends within the grace period.

        A later reason replaces an earlier one; the grace period starts with the first. Returns
        whether the attempt was still running.
        """
        if rollout.task is None or rollout.task.done():
            return False
        first, rollout.halt, rollout.halt_detail = rollout.halt is None, why, detail
        if first:
            self._stop_timer(rollout)
            rollout.timer = self._loop.call_later(
                self._policy.cancel_grace, self._post, Signal.WILL_NOT_END, rollout
            )
            rollout.task.cancel()
        return True

    def halt_all(self, why: Halt, detail: str = "") -> None:
        """Halt all attempts, once: none may start after that."""
        if self._halted is not why:
            self._halted = why
            for rollout in list(self.in_flight):
                self.halt(rollout, why, detail)

    def reap(self, rollout: OpenRollout) -> Outcome | None:
        """Remove an ended attempt from those in flight.

        Returns its outcome, or None when a stop cancelled it before it had one. Raises StorageError
        where the worker did.
        """
        task = self._remove(rollout)
        if task is None:
            return None
        outcome = None if task.cancelled() else task.result()
        if isinstance(outcome, Completed):
            return outcome
        match rollout.halt:
            case None:
                return outcome or Failed(
                    Failure.make(FailureKind.CANCELLED, "the worker was cancelled from outside")
                )
            case Halt.DEADLINE:
                return timed_out(outcome, self._loop.time() - rollout.started)
            case Halt.STOP:
                return None
            case why:
                return omitted(outcome, _OMITTED[why], rollout.halt_detail)

    def abandon(self, rollout: OpenRollout) -> Outcome | None:
        """Stop waiting for a cancelled attempt. Raises StuckWorkersError if there are many."""
        if rollout.task is None or rollout.task.done():
            return self.reap(rollout)  # it has just ended after all
        self.abandoned += 1
        self._abandoned_tasks.add(rollout.task)
        self._remove(rollout)
        if len(self._abandoned_tasks) > self._policy.max_abandoned:
            raise StuckWorkersError(
                f"{len(self._abandoned_tasks)} workers ignored their cancellation and are still "
                "running: do not swallow asyncio.CancelledError in a worker"
            )
        ignored = f"; it ignored its cancellation for {self._policy.cancel_grace:g} s"
        match rollout.halt:
            case Halt.STOP:
                return None
            case Halt.CUT | Halt.STALE | Halt.STRAGGLER as why:
                return Omitted(_OMITTED[why], rollout.halt_detail + ignored)
            case _:
                seconds = self._loop.time() - rollout.started
                return Failed(
                    Failure.make(FailureKind.TIMEOUT, f"no end after {seconds:.1f} s{ignored}")
                )

    def blocking(self) -> list[RolloutKey]:
        """The rollout whose code runs now, or all in flight where it cannot be told.

        For another thread, while the event loop is blocked.
        """
        running = asyncio.current_task(self._loop)
        in_flight = list(self.in_flight)
        return [each.item.key for each in in_flight if each.task is running] or [
            each.item.key for each in in_flight
        ]

    async def close(self) -> None:
        """Cancel everything in flight and wait for the grace period. Nothing is recorded."""
        tasks = [task for rollout in list(self.in_flight) if (task := self._remove(rollout))]
        self._abandoned_tasks.update(tasks)
        for task in tasks:
            if task.done() and not task.cancelled():
                task.exception()  # of several disk errors, one is reported
            task.cancel()
        if self._alarm is not None:
            self._alarm.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=self._policy.cancel_grace)

    def _set_alarm(self, when: float) -> None:
        """One timer for the earliest deadline: nearly all attempts end long before theirs."""
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm, self._alarm_at = self._loop.call_at(when, self._ring), when

    def _ring(self) -> None:
        """Report the attempts at their deadline, and wait for the next deadline."""
        now, next_deadline = max(self._loop.time(), self._alarm_at), math.inf
        self._alarm, self._alarm_at = None, math.inf
        for rollout in self.in_flight:
            if rollout.halt is not None:
                continue
            if rollout.deadline <= now:
                self._post(Signal.DEADLINE, rollout)
            else:
                next_deadline = min(next_deadline, rollout.deadline)
        if next_deadline < math.inf:
            self._set_alarm(next_deadline)

    async def _work(self, rollout: OpenRollout, deadline: float) -> Outcome:
        rollout.late = self._loop.time() - rollout.started
        ended = await outcome_of_attempt(self._worker, rollout.item, rollout.attempt, deadline)
        if not isinstance(ended, EncodedAttempt):
            return ended
        rollout.encoded = ended
        return ended.attempt.outcome

    def _done(self, rollout: OpenRollout, task: asyncio.Task[Outcome]) -> None:
        if rollout.task is task:
            self._post(Signal.ENDED, rollout)
        else:
            self._abandoned_tasks.discard(task)
            if not task.cancelled():
                task.exception()

    def _remove(self, rollout: OpenRollout) -> asyncio.Task[Outcome] | None:
        self._stop_timer(rollout)
        self.in_flight.pop(rollout, None)
        self._marks.leave(rollout.slot)
        rollout.slot = 0
        task, rollout.task = rollout.task, None
        return task

    def _stop_timer(self, rollout: OpenRollout) -> None:
        if rollout.timer is not None:
            rollout.timer.cancel()
            rollout.timer = None
