"""One collection, from its first task to its coverage.

A single loop decides everything. Everything else (an attempt ends, a timer fires, a sync is done,
the user presses Ctrl-C) only posts a message or sets a flag and wakes the loop. In each turn the
loop processes the messages, starts attempts, and sleeps.

A rollout is counted when its record is on disk and synced, not before. The sync runs in the same
task group as the loop; when it fails, the group cancels the loop.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack

import msgspec

from rollgym.engine.admission import Admission
from rollgym.engine.concurrency import limit_for
from rollgym.engine.control import Control
from rollgym.engine.coverage import Coverage, Ledger
from rollgym.engine.early_end import EarlyEnd
from rollgym.engine.observers import (
    AttemptStarted,
    CollectionEnded,
    CollectionStarted,
    Observer,
    Observers,
    RolloutsReopened,
)
from rollgym.engine.policy import Policy
from rollgym.engine.recorder import Listener, Recorder
from rollgym.engine.refill import Refills
from rollgym.engine.runner import listening_for_blocks
from rollgym.engine.steering import Steering
from rollgym.engine.stop import AttemptTimeouts, Stop, StopLevel, stopping_on_signals
from rollgym.engine.supervisor import Signal, Supervisor
from rollgym.engine.suspects import Suspects
from rollgym.engine.versions import with_versions
from rollgym.engine.work import (
    Halt,
    LiveSource,
    OpenRollout,
    Source,
    SourceError,
    Worker,
    main_error,
)
from rollgym.records import (
    TRAITS,
    Attempt,
    Completed,
    Failed,
    OmitReason,
    Omitted,
    Outcome,
    RolloutKey,
    derive_seed,
)
from rollgym.store import InFlightMarks, RunStore, cause_of, reduced

OPEN_PER_SLOT = 2
STRAGGLER_RUNNING = "cancelled when enough other rollouts had finished"
STRAGGLER_WAITING = "not running when enough other rollouts had finished"
LOOK_FOR_WAITING_EVERY = 0.25
WallClock = Callable[[], float]
Waits = Callable[[RolloutKey], bool]


async def collect(
    source: Source | LiveSource,
    worker: Worker,
    store: RunStore,
    policy: Policy | None = None,
    observers: Sequence[Observer] = (),
    *,
    stop: Stop | None = None,
    waits: Waits | None = None,
    timeouts: AttemptTimeouts | None = None,
    listener: Listener | None = None,
    control: Control | None = None,
    wall_clock: WallClock = time.time,
) -> Coverage:
    """Run `worker` for every rollout of `source` that `store` has no outcome for.

    `source` gives the tasks of the run, as `store.inputs` does. A `LiveSource` gives tasks while
    the run grows, and only those that are not finished. `listener` gets every record once it is
    synced.

    Returns when every rollout has an outcome, after a request to stop, when the run's budget is
    used up, or when nothing but the same failure comes back (`Policy.max_same_failures`). If the
    caller passes no `stop`, SIGINT and SIGTERM request it. Attempts for which `waits` returns true
    only wait for a resource, such as a browser; they are cancelled at the first request to stop.
    `timeouts` lets others, such as a monitor, end an attempt as at its deadline. `control` changes
    the collection while it runs.

    A store can be collected once; open the run again to continue it.

    Raises StoreError when records can no longer be written, SourceError when the source fails
    (running attempts may finish first, as after a request to stop), StuckWorkersError when too
    many workers do not end, ValueError for a budget that cannot be kept, and whatever a bug in the
    engine raises. Every acknowledged record is on disk then.
    """
    store.claim()
    with ExitStack() as stack:
        if stop is None:
            stop = Stop()
            stack.enter_context(
                stopping_on_signals(stop.request, requests=StopLevel.NOW, hangup=False)
            )
        collection = _Collection(
            source=source,
            worker=worker,
            store=store,
            policy=policy or Policy(),
            observers=Observers(observers),
            stop=stop,
            waits=waits or (lambda _: False),
            listener=listener,
            control=control or Control(wall_clock=wall_clock),
            wall_clock=wall_clock,
        )
        if timeouts is not None:
            timeouts.listen(collection.request_timeout)
        try:
            async with asyncio.TaskGroup() as services:
                syncing = [
                    services.create_task(store.commit.run()),
                    services.create_task(store.control_log.run()),
                ]
                await collection.run()
                for service in syncing:
                    service.cancel()
        except BaseExceptionGroup as group:
            error = main_error(group)
            error.add_note(f"Rollouts when it stopped: {collection.coverage()}")
            raise error from error.__cause__
        finally:
            await collection.close()
        return collection.coverage()


class _Collection:
    """The loop and its state."""

    def __init__(
        self,
        *,
        source: Source | LiveSource,
        worker: Worker,
        store: RunStore,
        policy: Policy,
        observers: Observers,
        stop: Stop,
        waits: Waits,
        listener: Listener | None,
        control: Control,
        wall_clock: WallClock,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._store = store
        self._policy = policy
        self._observers = observers
        self._stop = stop
        self._waits = waits
        self._wall_clock = wall_clock
        self._ledger = Ledger(source, store.progress)
        self._admission = Admission(source, store.inputs, store.progress, store.seed)
        self._marks = InFlightMarks(store.journal_path)
        self._suspects = Suspects(self._marks.earlier)
        self._supervisor = Supervisor(worker, policy, self._post, self._marks)
        self._inbox: deque[tuple[Signal, OpenRollout]] = deque()
        self._wake = asyncio.Event()
        self._end = EarlyEnd(
            policy,
            stop,
            self._ledger,
            store.progress,
            observers=observers,
            wake=self._wake.set,
            wall_clock=wall_clock,
        )
        self._retries = 0
        self._look_timer: asyncio.TimerHandle | None = None
        self._retry_timer: asyncio.TimerHandle | None = None
        self.request_timeout = self._supervisor.request_timeout
        self._refills = Refills(policy.refills, store.progress, self._may_refill)
        self._recorder = Recorder(
            store,
            self._ledger,
            observers,
            refills=self._refills,
            counted=self._end.check_threshold,
            listener=listener,
        )
        self._control = control
        self._steering = Steering(
            control,
            policy=policy,
            stop=stop,
            end=self._end,
            ledger=self._ledger,
            progress=store.progress,
            admission=self._admission,
            supervisor=self._supervisor,
            observers=observers,
            limit=limit_for(policy.concurrency),
            wake=self._wake.set,
            now=self._loop.time,
        )
        stop.listen(self._wake.set)
        self._live = isinstance(source, LiveSource)
        self._alone: OpenRollout | None = None
        if isinstance(source, LiveSource):
            source.listen(self._wake.set)

    async def run(self) -> None:
        """Run the collection up to the last sync."""
        with listening_for_blocks(self._note_blocked, self._marks.note_responding):
            await self._run()

    def _note_blocked(self, where: str) -> None:
        self._marks.note_blocked(self._supervisor.blocking(), where)

    async def _run(self) -> None:
        self._steering.begin(self._store.control_log)
        self._observers.put(
            CollectionStarted(self._ledger.expected, self._ledger.groups, self._ledger.resumed)
        )
        reopened = self._refills.reopen_earlier()
        if reopened:
            self._observers.put(RolloutsReopened(reopened))
        if self._live and self._store.progress.waiting:
            self._admission.reopen()  # a live source does not give them
        self._end.start()
        while True:
            await self._process_messages()
            self._steering.act()
            await self._omit_dropped()
            if self._end.stopping:
                self._drain()
            elif self._steering.held:
                pass
            elif self._end.grace_over:
                await self._omit_stragglers()
            else:
                self._admit()
            self._marks.write()
            if self._suspects and await self._suspects.record(self._recorder, self._wall_clock):
                self._wake.set()
            if self._finished():
                break
            await self._sleep()
        await self._store.commit.flush()
        await self._store.control_log.flush()
        if self._end.source_error:
            raise self._end.source_error

    async def _sleep(self) -> None:
        """Wait for the next message; let other tasks run even if there is one already."""
        if self._wake.is_set():
            await asyncio.sleep(0)
        else:
            await self._wake.wait()
        self._wake.clear()

    def coverage(self) -> Coverage:
        abandoned, dropped = self._supervisor.abandoned, self._observers.dropped()
        return self._ledger.coverage(abandoned, dropped, self._stop.reason)

    async def close(self) -> None:
        """Stop all workers, timers and observers."""
        self._stop.listen(lambda: None)
        self._control.detach()
        self._end.close()
        for timer in (self._retry_timer, self._look_timer):
            if timer is not None:
                timer.cancel()
        await self._supervisor.close()
        self._marks.close()
        if self._observers:
            self._observers.put(CollectionEnded(self.coverage()))
            await self._observers.close()

    # Processing messages.

    def _post(self, signal: Signal, rollout: OpenRollout) -> None:
        self._inbox.append((signal, rollout))
        self._wake.set()

    async def _process_messages(self) -> None:
        """Act on all messages; the attempts that have ended are written together."""
        try:
            while self._inbox:
                signal, rollout = self._inbox.popleft()
                if rollout not in self._supervisor.in_flight:
                    continue
                match signal:
                    case Signal.DEADLINE:
                        self._supervisor.halt(rollout, Halt.DEADLINE)
                    case Signal.ENDED:
                        await self._conclude(rollout, self._supervisor.reap(rollout))
                    case Signal.WILL_NOT_END:
                        await self._conclude(rollout, self._supervisor.abandon(rollout))
        finally:
            self._store.commit.write()

    async def _conclude(self, rollout: OpenRollout, outcome: Outcome | None) -> None:
        """Record an ended attempt, and schedule its retry if there is one."""
        if outcome is None:
            return
        outcome = rollout.concluded(outcome)
        if outcome.models and self._policy.prices.by_model:
            priced = self._policy.prices.priced(outcome.models)
            outcome = msgspec.structs.replace(outcome, models=priced)
        if outcome.turns:
            known = self._control.policy_versions
            outcome = with_versions(outcome, known, rollout.started, rollout.late)
        now = self._loop.time()
        self._learn(rollout, outcome, now)
        if rollout.halt is Halt.CUT and isinstance(outcome, Omitted):
            rollout.spent, rollout.expires = rollout.spent - 1, None
            await self._record(rollout, outcome, now, retry_after=0.0)
            return
        delay = self._retry_delay(rollout, outcome, now)
        recorded = await self._record(rollout, outcome, now, retry_after=delay)
        self._retries += not recorded.final

    async def _record(
        self, rollout: OpenRollout, outcome: Outcome, now: float, *, retry_after: float | None
    ) -> Attempt:
        """Record an attempt that ended now; then the rollout is retried, refilled or over."""
        seconds, final = now - rollout.started, retry_after is None
        attempt, refilled = await self._recorder.record(rollout, outcome, seconds, final=final)
        self._end.note_attempt(attempt.outcome)
        if retry_after is not None and not attempt.final:
            self._admission.retry_at(now + retry_after, rollout)
            return attempt
        self._end.note_outcome(attempt.outcome)
        if refilled and (cause := cause_of(attempt.outcome)):
            self._admission.retry_at(now, rollout.reopened(reduced(cause)))
        return attempt

    def _may_refill(self) -> bool:
        return not self._end.stopping and not self._end.grace_over

    def _learn(self, rollout: OpenRollout, outcome: Outcome, now: float) -> None:
        """Adjust the limit on attempts in flight to completions and signs of overload."""
        overload = isinstance(outcome, Failed) and TRAITS[outcome.failure.kind].overload
        if overload or isinstance(outcome, Completed):
            in_flight = len(self._supervisor.in_flight) + 1
            self._steering.observe(
                started=rollout.started, ended=now, overload=overload, in_flight=in_flight
            )

    def _retry_delay(self, rollout: OpenRollout, outcome: Outcome, now: float) -> float | None:
        if not isinstance(outcome, Failed):
            return None
        retry = self._policy.retry
        if retry.max_retries is not None and self._retries >= retry.max_retries:
            return None
        key = rollout.item.key
        seed = derive_seed(self._store.seed, "retry", key.task, key.repeat, rollout.attempt)
        delay = retry.delay(outcome.failure, rollout.spent, seed)
        expires = rollout.expires
        if delay is None or (expires is not None and now + delay >= expires):
            return None
        return delay

    # Starting attempts.

    def _admit(self) -> None:
        now = self._loop.time()
        in_flight = self._supervisor.in_flight
        limit = self._steering.limit
        # The end that suspects wait for never comes where the source is live.
        alone = self._alone in in_flight or bool(self._suspects)
        suspects_first = self._live and alone
        while len(in_flight) < limit and not suspects_first:
            rollout = self._admission.due(now)
            if rollout is None and self._admission.waiting < (OPEN_PER_SLOT - 1) * limit:
                rollout = self._fresh()
            if rollout is None:
                break
            self._start(rollout)
        all_done = self._admission.exhausted and not self._admission.waiting
        if not in_flight and (all_done or suspects_first):
            suspect = self._suspects.next()
            if suspect is not None:
                self._alone = suspect
                self._start(suspect)
        self._set_retry_timer()

    def _start(self, rollout: OpenRollout) -> None:
        rollout.policy_version = self._steering.policy_version
        self._supervisor.start(rollout, self._wall_clock())
        if self._observers:
            in_flight, limit = len(self._supervisor.in_flight), self._steering.limit
            self._observers.put(AttemptStarted(rollout.item.key, rollout.attempt, in_flight, limit))

    def _fresh(self) -> OpenRollout | None:
        if self._admission.exhausted:
            return None
        try:
            rollout = self._admission.fresh()
        except SourceError as error:
            self._end.source_error = error
            self._wake.set()
            return None
        if rollout is None and not self._admission.exhausted and not self._admission.idle:
            self._wake.set()
        if rollout is not None and self._suspects.keep(rollout):
            self._wake.set()
            return None
        return rollout

    def _set_retry_timer(self) -> None:
        if self._retry_timer is not None:
            self._retry_timer.cancel()
            self._retry_timer = None
        due = self._admission.next_due
        if due is not None and len(self._supervisor.in_flight) < self._steering.limit:
            self._retry_timer = self._loop.call_at(due, self._wake.set)

    def _finished(self) -> bool:
        if self._supervisor.in_flight or self._inbox:
            return False
        if self._end.stopping:
            return True
        if self._steering.held:
            return False
        return self._admission.exhausted and not self._admission.waiting and not self._suspects

    # Ending early.

    async def _omit_stragglers(self) -> None:
        """Cancel running attempts, and omit all rollouts that are not running."""
        self._supervisor.halt_all(Halt.STRAGGLER, STRAGGLER_RUNNING)
        for rollout in self._admission.drain():
            await self._omit(rollout, OmitReason.STRAGGLER, STRAGGLER_WAITING)
        while not self._admission.exhausted and not self._stop.level:
            fresh = self._fresh()
            if fresh is not None:
                await self._omit(fresh, OmitReason.STRAGGLER, STRAGGLER_WAITING)
            elif self._end.source_error:
                return
            else:
                await asyncio.sleep(0)
        for rollout in self._suspects.drain():
            await self._omit(rollout, OmitReason.STRAGGLER, STRAGGLER_WAITING)

    async def _omit_dropped(self) -> None:
        while self._steering.to_omit:
            rollout, why = self._steering.to_omit.pop()
            await self._omit(rollout, OmitReason.STALE, why)

    async def _omit(self, rollout: OpenRollout, reason: OmitReason, detail: str) -> None:
        """Omit a rollout that is not running."""
        rollout.attempt += 1
        rollout.started, rollout.started_wall = self._loop.time(), self._wall_clock()
        outcome = Omitted(reason, detail)
        await self._record(rollout, outcome, rollout.started, retry_after=None)
        self._store.commit.write()

    def _drain(self) -> None:
        """Start nothing more, and let running attempts finish within `drain_timeout`."""
        if self._end.drain(len(self._supervisor.in_flight)):
            self._supervisor.halt_all(Halt.STOP)
        elif self._look_timer is None:
            # Not at every turn: each of thousands of attempts that end would look at all others.
            for rollout in list(self._supervisor.in_flight):
                if self._waits(rollout.item.key):
                    self._supervisor.halt(rollout, Halt.STOP)
            self._look_timer = self._loop.call_later(LOOK_FOR_WAITING_EVERY, self._look_again)

    def _look_again(self) -> None:
        self._look_timer = None
        self._wake.set()
