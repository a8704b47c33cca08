"""The loop of one collection, which decides everything.

Everything else (an attempt ends, a timer fires, a sync is done, the user presses Ctrl-C) only posts
a message or sets a flag and wakes the loop. In each turn the loop processes the messages, starts
attempts, and sleeps.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from rollgym.engine.admission import Admission
from rollgym.engine.conclusions import Conclusions
from rollgym.engine.concurrency import limit_for
from rollgym.engine.control import Control
from rollgym.engine.coverage import Coverage, Ledger
from rollgym.engine.early_end import EarlyEnd
from rollgym.engine.observers import (
    AttemptStarted,
    CollectionEnded,
    CollectionStarted,
    Observers,
    RolloutsReopened,
)
from rollgym.engine.policy import Policy
from rollgym.engine.recorder import Listener, Recorder
from rollgym.engine.refill import Refills
from rollgym.engine.runner import listening_for_blocks
from rollgym.engine.steering import Steering
from rollgym.engine.stop import Stop
from rollgym.engine.supervisor import Signal, Supervisor
from rollgym.engine.suspects import Suspects
from rollgym.engine.work import (
    Halt,
    LiveSource,
    OpenRollout,
    Source,
    SourceError,
    Worker,
)
from rollgym.records import (
    OmitReason,
    Omitted,
    RolloutKey,
)
from rollgym.store import InFlightMarks, RunStore

OPEN_PER_SLOT = 2
STRAGGLER_RUNNING = "cancelled when enough other rollouts had finished"
STRAGGLER_WAITING = "not running when enough other rollouts had finished"
LOOK_FOR_WAITING_EVERY = 0.25
WallClock = Callable[[], float]
Waits = Callable[[RolloutKey], bool]


class Collection:
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
        self._conclusions = Conclusions(
            policy,
            control,
            self._recorder,
            seed=store.seed,
            admission=self._admission,
            supervisor=self._supervisor,
            steering=self._steering,
            end=self._end,
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
                        await self._conclusions.conclude(rollout, self._supervisor.reap(rollout))
                    case Signal.WILL_NOT_END:
                        await self._conclusions.conclude(rollout, self._supervisor.abandon(rollout))
        finally:
            self._store.commit.write()

    def _may_refill(self) -> bool:
        return not self._end.stopping and not self._end.grace_over

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
        await self._conclusions.record(rollout, outcome, rollout.started, retry_after=None)
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
