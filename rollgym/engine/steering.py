"""Acting on the live control of a collection, in the turns of its loop.

The loop calls `act` in each turn. Limits and holds are states: the loop compares a revision, and
applies what there is now. Actions come one at a time.
"""

from collections.abc import Callable, Mapping
from typing import Any

from rollgym.engine.admission import Admission
from rollgym.engine.concurrency import AdaptiveLimit, FixedLimit
from rollgym.engine.control import Action, Control, Cut, Drop, Reopen
from rollgym.engine.coverage import CollectionStatus, Ledger, OpenAttempt, State
from rollgym.engine.early_end import EarlyEnd
from rollgym.engine.observers import Held, Observers, RolloutsReopened
from rollgym.engine.policy import Policy, check_budget
from rollgym.engine.stop import Stop, StopLevel
from rollgym.engine.supervisor import Supervisor
from rollgym.engine.work import Halt, OpenRollout
from rollgym.records import DOLLAR
from rollgym.store import ControlLog, Progress, Status


class Steering:
    """The control of one collection, seen from its loop."""

    def __init__(
        self,
        control: Control,
        *,
        policy: Policy,
        stop: Stop,
        end: EarlyEnd,
        ledger: Ledger,
        progress: Progress,
        admission: Admission,
        supervisor: Supervisor,
        observers: Observers,
        limit: FixedLimit | AdaptiveLimit,
        wake: Callable[[], None],
        now: Callable[[], float],
    ) -> None:
        self.wake = wake
        self.to_omit: list[tuple[OpenRollout, str]] = []
        self._control = control
        self._policy = policy
        self._stop = stop
        self._end = end
        self._ledger = ledger
        self._progress = progress
        self._admission = admission
        self._supervisor = supervisor
        self._observers = observers
        self._policy_limit = limit
        self._now = now
        self._revision = -1
        self._deadline: float | None = None
        self._held_since: float | None = None
        self._holds: tuple[str, ...] = ()

    def begin(self, log: ControlLog) -> None:
        """Take control. Raises ValueError for a budget that cannot be kept, and StoreError."""
        self.check_budget(self._control.budget)
        self._control.attach(self, log)

    @property
    def held(self) -> bool:
        """Whether no attempt may start for now."""
        return self._held_since is not None

    @property
    def limit(self) -> int:
        """How many attempts may run at the same time."""
        return self._control.concurrency or self._policy_limit.current

    @property
    def policy_version(self) -> str | None:
        return self._control.policy_version

    def observe(self, *, started: float, ended: float, overload: bool, in_flight: int) -> None:
        """Learn from an ended attempt; not while a limit is set that was not found by trying."""
        if self._control.concurrency is None:
            self._policy_limit.observe(
                started=started, ended=ended, overload=overload, in_flight=in_flight
            )

    def act(self) -> None:
        """Apply what was changed. Raises StorageError where it cannot be logged."""
        control = self._control
        if control.error is not None:
            raise control.error
        if control.revision == self._revision:
            return
        self._revision = control.revision
        self._apply_holds()
        self._end.set_budget(*self._budget(control.budget))
        if control.deadline != self._deadline:
            self._deadline = control.deadline
            self._end.set_deadline(control.deadline)
        while action := control.next_action():
            order, count = action
            try:
                concerned = self._do(order)
            except Exception as error:  # noqa: BLE001 - of the function that chooses
                if not count.done():
                    count.set_exception(error)
                continue
            if not count.done():
                count.set_result(concerned)

    # What the control asks for.

    def check_budget(self, given: Mapping[str, Any]) -> None:
        """Raises ValueError for limits that cannot be kept."""
        check_budget(*self._budget(given), self._policy.prices)

    def stop(self, *, now: bool) -> None:
        """Stop as on request; `now` without waiting for running attempts."""
        wanted = StopLevel.NOW if now else StopLevel.DRAINING
        while self._stop.level < wanted:
            self._stop.request()

    def open_attempts(self) -> list[OpenAttempt]:
        """The rollouts that have begun and have no outcome."""
        running = [_shown(each, running=True) for each in self._supervisor.in_flight]
        waiting = (each for each in self._admission.between_attempts() if each.spent)
        return running + [_shown(each, running=False) for each in waiting]

    def status(self) -> CollectionStatus:
        """The present state."""
        max_tokens, max_cost = self._budget(self._control.budget)
        budget, progress = self._end.budget, self._progress
        fixed = self._control.concurrency is not None
        return CollectionStatus(
            state=self._state(),
            holds=self._control.holds,
            expected=self._ledger.expected,
            completed=progress.count(Status.COMPLETED),
            failed=progress.count(Status.FAILED),
            omitted=progress.count(Status.OMITTED),
            reopened=progress.reopened,
            running=len(self._supervisor.in_flight),
            waiting=self._admission.waiting,
            limit=self.limit,
            concurrency="set live" if fixed else "as it was started",
            tokens=budget.tokens,
            cost=budget.cost / DOLLAR,
            max_tokens=max_tokens,
            max_cost=max_cost,
            deadline=self._control.deadline,
            policy_version=self._control.policy_version,
            stopping=self._stop.reason,
        )

    def _state(self) -> State:
        if self._end.stopping:
            return State.STOPPING
        return State.PAUSED if self._control.holds else State.RUNNING

    def _budget(self, given: Mapping[str, Any]) -> tuple[int | None, float | None]:
        policy = self._policy
        return given.get("max_tokens", policy.max_tokens), given.get("max_cost", policy.max_cost)

    def _apply_holds(self) -> None:
        holds, now = self._control.holds, self._now()
        if holds != self._holds:
            self._holds = holds
            self._observers.put(Held(holds))
        if bool(holds) == self.held:
            return
        if self._held_since is not None:
            self._admission.extend_deadlines(self._held_since, now)
        self._held_since = now if holds else None

    def _do(self, action: Action) -> int:
        match action:
            case Cut(chosen=chosen, reason=reason):
                return self._halt(chosen, Halt.CUT, reason)
            case Drop(chosen=chosen, reason=reason):
                return self._drop(chosen, reason)
            case Reopen(omitted=omitted):
                return self._reopen(omitted=omitted)

    def _halt(self, chosen: Callable[[OpenAttempt], bool], why: Halt, reason: str) -> int:
        running = [each for each in self._supervisor.in_flight if each.halt is None]
        return sum(
            self._supervisor.halt(each, why, reason)
            for each in running
            if chosen(_shown(each, running=True))
        )

    def _drop(self, chosen: Callable[[OpenAttempt], bool], reason: str) -> int:
        halted = self._halt(chosen, Halt.STALE, reason)
        removed = self._admission.remove(
            lambda each: bool(each.spent) and chosen(_shown(each, running=False))
        )
        self.to_omit += [(each, reason) for each in removed]
        return halted + len(removed)

    def _reopen(self, *, omitted: bool) -> int:
        if self._end.stopping or self._end.grace_over:
            return 0
        statuses = (Status.FAILED, Status.OMITTED) if omitted else (Status.FAILED,)
        count = self._progress.reopen(statuses)
        if count:
            self._admission.reopen()
            self._observers.put(RolloutsReopened(count))
        return count


def _shown(rollout: OpenRollout, *, running: bool) -> OpenAttempt:
    return OpenAttempt(rollout.item.key, rollout.attempt, rollout.policy_version, running)
