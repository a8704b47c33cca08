"""Workers in flight: started, bounded in time, cancelled, and abandoned if they will not end.

A task group waits for its children for ever. A worker may be anybody's code and may swallow its
cancellation, so attempts are not children of a task group: each is a task with a deadline, and one
that has not ended `cancel_grace` after its cancellation is abandoned. It runs on, ignored, and the
number of such tasks alive is bounded.

Callbacks of the event loop only post a message; the collection's one loop acts on it. An error in
the engine's own logic therefore always surfaces there and never vanishes in a callback.
"""

import asyncio
from collections.abc import Callable
from enum import Enum
from functools import partial

from rollgym.engine.ending import sound, straggler, timed_out
from rollgym.engine.errors import StuckWorkersError
from rollgym.engine.policy import Policy
from rollgym.engine.rollout import Halt, OpenRollout
from rollgym.engine.work import Worker
from rollgym.records import Completed, Failed, Failure, FailureKind, OmitReason, Omitted, Outcome


class Signal(Enum):
    """What a callback tells of a rollout's present attempt."""

    ENDED = "ended"
    DEADLINE = "deadline"
    WILL_NOT_END = "will not end"


Post = Callable[[Signal, OpenRollout], None]


class Supervisor:
    """The attempts in flight."""

    def __init__(self, worker: Worker, policy: Policy, post: Post) -> None:
        # A dict for its order: what is done to them all is done in the order they began.
        self.in_flight: dict[OpenRollout, None] = {}
        self.abandoned = 0
        # Held here, because the event loop itself would let a waiting task be collected.
        self._left_behind: set[asyncio.Task[Outcome]] = set()
        self._worker = worker
        self._policy = policy
        self._post = post
        self._loop = asyncio.get_running_loop()

    def start(self, rollout: OpenRollout, wall: float) -> None:
        """Begin the rollout's next attempt."""
        now = self._loop.time()
        if rollout.expires is None:
            rollout.expires = now + self._policy.rollout_timeout
        deadline = min(now + self._policy.attempt_timeout, rollout.expires)
        rollout.attempt += 1
        rollout.spent += 1
        rollout.started = now
        rollout.started_wall = wall
        rollout.halt = None
        rollout.task = task = self._loop.create_task(self._work(rollout, deadline))
        task.add_done_callback(partial(self._done, rollout))
        rollout.timer = self._loop.call_at(deadline, self._post, Signal.DEADLINE, rollout)
        self.in_flight[rollout] = None

    def halt(self, rollout: OpenRollout, why: Halt) -> None:
        """Cancel the present attempt, and abandon it unless it ends soon.

        A stop overrules a straggler's halt, and both a deadline's; the grace runs from the first.
        """
        if rollout.task is None or rollout.task.done():
            return
        first, rollout.halt = rollout.halt is None, why
        if first:
            self._stop_timer(rollout)
            rollout.timer = self._loop.call_later(
                self._policy.cancel_grace, self._post, Signal.WILL_NOT_END, rollout
            )
            rollout.task.cancel()

    def reap(self, rollout: OpenRollout) -> Outcome | None:
        """Take an ended attempt out of flight.

        Returns what it came to, or None when it was stopped before it came to anything.
        """
        task = self._take(rollout)
        if task is None:
            return None
        outcome = _outcome(task)
        if isinstance(outcome, Completed):
            return outcome
        match rollout.halt:
            case None:
                return outcome or Failed(
                    Failure.make(FailureKind.CANCELLED, "the worker was cancelled from outside")
                )
            case Halt.DEADLINE:
                return timed_out(outcome, self._loop.time() - rollout.started)
            case Halt.STRAGGLER:
                return straggler(outcome)
            case Halt.STOP:
                return None

    def abandon(self, rollout: OpenRollout) -> Outcome | None:
        """Give up waiting for a cancelled attempt. Raises StuckWorkersError when there are many."""
        if rollout.task is None or rollout.task.done():
            return self.reap(rollout)  # it ended after all, just now
        self.abandoned += 1
        self._left_behind.add(rollout.task)
        self._take(rollout)
        if len(self._left_behind) > self._policy.max_abandoned:
            raise StuckWorkersError(
                f"{len(self._left_behind)} workers ignored their cancellation and still run: "
                "do not swallow asyncio.CancelledError in a worker"
            )
        ignored = f"; it ignored its cancellation for {self._policy.cancel_grace:g} s"
        match rollout.halt:
            case Halt.STRAGGLER:
                return Omitted(OmitReason.STRAGGLER, "abandoned" + ignored)
            case Halt.STOP:
                return None
            case _:
                seconds = self._loop.time() - rollout.started
                return Failed(
                    Failure.make(FailureKind.TIMEOUT, f"no end after {seconds:.1f} s{ignored}")
                )

    async def close(self) -> None:
        """Cancel whatever is in flight and wait for it, within the grace. Nothing is recorded."""
        tasks = [task for rollout in list(self.in_flight) if (task := self._take(rollout))]
        self._left_behind.update(tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=self._policy.cancel_grace)

    async def _work(self, rollout: OpenRollout, deadline: float) -> Outcome:
        try:
            return sound(await self._worker(rollout.item, rollout.attempt, deadline))
        except (asyncio.CancelledError, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001 - a worker may raise anything
            return Failed(_failure_of(error))

    def _done(self, rollout: OpenRollout, task: asyncio.Task[Outcome]) -> None:
        if rollout.task is task:
            self._post(Signal.ENDED, rollout)
        else:
            self._left_behind.discard(task)
            if not task.cancelled():
                task.exception()

    def _take(self, rollout: OpenRollout) -> asyncio.Task[Outcome] | None:
        self._stop_timer(rollout)
        self.in_flight.pop(rollout, None)
        task, rollout.task = rollout.task, None
        return task

    def _stop_timer(self, rollout: OpenRollout) -> None:
        if rollout.timer is not None:
            rollout.timer.cancel()
            rollout.timer = None


def _outcome(task: asyncio.Task[Outcome]) -> Outcome | None:
    """What the worker came to; None when it ended by its cancellation."""
    return None if task.cancelled() else task.result()


def _failure_of(error: BaseException) -> Failure:
    """The failure that an exception is, even where asking it for its parts raises."""
    try:
        return Failure.of(error)
    except Exception as odd:  # noqa: BLE001 - its attributes are a plug-in's code too
        what = f"{type(error).__name__}, which cannot be read ({type(odd).__name__})"
        return Failure.make(FailureKind.INTERNAL, f"the worker raised {what}")
