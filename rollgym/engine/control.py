"""Live control of one running collection: pausing, limits, the policy's version, running again.

A `Control` is passed to `collect`. Its methods may be called before and while the collection runs,
on its event loop. They only note what is asked for and wake the collection's one loop, which acts
on it (see `steering`). Methods that ask for an action return a future with the number of rollouts
that it concerned; it need not be awaited.

*The log.* What is changed is written to the control log of the run (`rollgym.store.ControlLog`)
before it takes effect, with the name of who asked (`by`). A hold without a name is not logged: a
program that holds back admission may do so many times a second. A limit that was changed live
belongs to this collection; the next one begins with its own. The policy's version is different: it
does not end with a collection, so the next one of the run begins with the last version.
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol

import msgspec

from rollgym.engine.coverage import (
    CollectionStatus,
    OpenAttempt,
    State,
    describe_time,
)
from rollgym.records import RolloutKey
from rollgym.records.version import require_version
from rollgym.store import ControlChange, ControlLog, StorageError, read_changes

PROGRAM = "the program"
"""Who asked for a change, where the caller gave no name."""
LARGEST_LIMIT = 100_000
POLICY, VERSION = "policy", "version"


class PolicyVersion(msgspec.Struct, frozen=True):
    """A version of the policy, and since when it is the current one.

    `monotonic` is a time of this process (`time.monotonic`), `wall` one of the wall clock. A
    version from before this process has the monotonic time minus infinity.
    """

    version: str
    monotonic: float
    wall: float


class Cut(msgspec.Struct, frozen=True):
    """Cancel the chosen attempts, and start their rollouts again."""

    chosen: Callable[[OpenAttempt], bool]
    reason: str


class Drop(msgspec.Struct, frozen=True):
    """Omit the chosen rollouts, as stale."""

    chosen: Callable[[OpenAttempt], bool]
    reason: str


class Reopen(msgspec.Struct, frozen=True):
    """Run failed rollouts again, and omitted ones too if asked for."""

    omitted: bool


Action = Cut | Drop | Reopen
VersionListener = Callable[[PolicyVersion], object]


class Attached(Protocol):
    """The running collection, as its control sees it."""

    def wake(self) -> None:
        """Let the loop look at what was changed."""

    def check_budget(self, given: Mapping[str, Any]) -> None:
        """Raises ValueError for limits that cannot be kept."""

    def stop(self, *, now: bool) -> None:
        """Stop as on request; `now` without waiting for running attempts."""

    def open_attempts(self) -> list[OpenAttempt]:
        """The rollouts that have begun and have no outcome."""

    def status(self) -> CollectionStatus:
        """The present state."""


class Control:
    """The live control of one collection; see the module."""

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self.policy_versions: list[PolicyVersion] = []
        self.concurrency: int | None = None
        self.deadline: float | None = None
        self.budget: dict[str, Any] = {}
        self.revision = 0
        self.error: StorageError | None = None
        self.back_pressure: Callable[[], str | None] = lambda: None
        """Says for the status why the source gives no further task."""
        self._clock, self._wall_clock = clock, wall_clock
        self._holds: dict[str, None] = {}
        self._actions: deque[tuple[Action, asyncio.Future[int]]] = deque()
        self._version_listeners: list[VersionListener] = []
        self._unlogged: list[ControlChange] = []
        self._log: ControlLog | None = None
        self._attached: Attached | None = None
        self._ended = False
        self._stop: bool | None = None

    @property
    def state(self) -> State:
        """What the collection is doing."""
        if self._attached is not None:
            return self._attached.status().state
        return State.ENDED if self._ended else State.STARTING

    # Pausing.

    @property
    def holds(self) -> tuple[str, ...]:
        """Why no attempt may start; empty while they may."""
        return tuple(self._holds)

    def hold(self, reason: str, *, by: str | None = None) -> bool:
        """Start no attempt until this reason is released; running attempts go on.

        A held collection does not end by itself. Requests to stop and deadlines still end it.
        Returns whether the reason is new.
        """
        if reason in self._holds:
            return False
        if by is not None:
            self._note("pause", by, reason=reason)
        self._holds[reason] = None
        self._changed()
        return True

    def release(self, reason: str, *, by: str | None = None) -> bool:
        """Withdraw a reason for holding. Returns whether it was one."""
        if reason not in self._holds:
            return False
        if by is not None:
            self._note("resume", by, reason=reason)
        del self._holds[reason]
        self._changed()
        return True

    # Limits.

    def set_concurrency(self, limit: int | None, *, by: str | None = None) -> None:
        """Run up to `limit` attempts at a time; None returns to what the policy says.

        With a lower limit, running attempts finish. Raises ValueError.
        """
        if limit is not None and not 1 <= limit <= LARGEST_LIMIT:
            raise ValueError(f"a limit on attempts must be from 1 to {LARGEST_LIMIT:,}")
        if limit == self.concurrency:
            return
        self._note("concurrency", by, limit=limit or "auto")
        self.concurrency = limit
        self._changed()

    def set_budget(
        self,
        *,
        max_tokens: int | msgspec.UnsetType | None = msgspec.UNSET,
        max_cost: float | msgspec.UnsetType | None = msgspec.UNSET,
        by: str | None = None,
    ) -> None:
        """Change the limits of the run; None removes one, and what is not given stays.

        Raises ValueError; before the collection runs, `collect` does so.
        """
        limits = {"max_tokens": max_tokens, "max_cost": max_cost}
        given = {name: limit for name, limit in limits.items() if limit is not msgspec.UNSET}
        if self._attached is not None:
            self._attached.check_budget(self.budget | given)
        if self.budget | given == self.budget:
            return
        self._note("budget", by, **given)
        self.budget |= given
        self._changed()

    def set_deadline(self, deadline: float | None, *, by: str | None = None) -> None:
        """Stop the collection at this time of the wall clock; None removes the deadline.

        It stops as when its budget is used up: running attempts finish, and the rest stays
        unresolved. Raises ValueError.
        """
        if deadline is not None and not math.isfinite(deadline):
            raise ValueError("a deadline must be a finite time")
        if deadline == self.deadline:
            return
        moment = "none" if deadline is None else describe_time(deadline)
        self._note("deadline", by, time=moment)
        self.deadline = deadline
        self._changed()

    def stop(self, *, now: bool = False, by: str | None = None) -> None:
        """Request a stop: running attempts may finish, unless `now`."""
        self._note("stop", by, now=now)
        self._stop = now or bool(self._stop)
        if self._attached is not None:
            self._attached.stop(now=now)

    # The policy's version.

    @property
    def policy_version(self) -> str | None:
        """The current version of the policy, if it is known."""
        return self.policy_versions[-1].version if self.policy_versions else None

    def set_policy_version(self, version: str, *, by: str | None = None) -> None:
        """Note that the policy has another version from now on, and tell the listeners.

        Raises ValueError for a text that cannot be the version of a turn.
        """
        version = require_version(version)
        if version == self.policy_version:
            return
        self._note(POLICY, by, **{VERSION: version})
        current = PolicyVersion(version, self._clock(), self._wall_clock())
        self.policy_versions.append(current)
        self._changed()
        for listener in self._version_listeners:
            listener(current)

    def on_policy_version(self, listener: VersionListener) -> None:
        """Call `listener` with each further version, on the event loop."""
        self._version_listeners.append(listener)

    # Actions.

    def open_attempts(self) -> list[OpenAttempt]:
        """The rollouts that have begun and have no outcome, running ones first."""
        return self._attached.open_attempts() if self._attached else []

    def cut(
        self,
        which: Collection[RolloutKey] | Callable[[OpenAttempt], bool],
        reason: str,
        *,
        by: str | None = None,
    ) -> asyncio.Future[int]:
        """Cancel running attempts and start their rollouts again.

        `which` names rollouts, or chooses among the running ones; what that raises is raised by the
        future. A cut attempt is recorded as omitted, and uses up no retry and none of the rollout's
        time.
        """
        return self._ask("cut", Cut(_chooser(which), reason), by, reason=reason)

    def drop(
        self,
        which: Collection[RolloutKey] | Callable[[OpenAttempt], bool],
        reason: str,
        *,
        by: str | None = None,
    ) -> asyncio.Future[int]:
        """Omit rollouts that have begun, running or between two attempts, as stale.

        `which` names rollouts, or chooses among those that have begun.
        """
        return self._ask("drop", Drop(_chooser(which), reason), by, reason=reason)

    def retry_failed(self, *, omitted: bool = False, by: str | None = None) -> asyncio.Future[int]:
        """Run every rollout again that has failed in this run, with a new retry budget.

        With `omitted`, those that were omitted too. Their outcomes count until new ones replace
        them. A collection that is stopping reopens nothing.
        """
        return self._ask("retry-failed", Reopen(omitted), by, omitted=omitted)

    def status(self) -> CollectionStatus | None:
        """The present state of the collection; None before and after it."""
        status = self._attached.status() if self._attached else None
        if status and not status.holds and (reason := self.back_pressure()):
            return msgspec.structs.replace(status, holds=(reason,))
        return status

    async def flush(self) -> None:
        """Wait until every change so far is on disk. Raises StorageError."""
        if self._log is not None:
            await self._log.flush()

    # For the collection.

    def attach(self, attached: Attached, log: ControlLog) -> None:
        """Begin to control a collection. Raises RuntimeError for a second one, and StoreError."""
        if self._log is not None:
            raise RuntimeError("a Control belongs to one collection: make a new one")
        self._attached, self._log = attached, log
        for change in read_changes(log.path.parent):
            version = change.values.get(VERSION)
            if change.command == POLICY and isinstance(version, str):
                earlier = PolicyVersion(version, -math.inf, change.time)
                given = [each for each in self.policy_versions if each.monotonic > -math.inf]
                self.policy_versions = [earlier, *given]
        for change in self._unlogged:
            log.append(change)
        self._unlogged.clear()
        if self._stop is not None:
            attached.stop(now=self._stop)

    def detach(self) -> None:
        """The collection has ended; actions that it did not get to concern nothing."""
        self._attached, self._ended = None, True
        while self._actions:
            _settle(self._actions.popleft()[1], 0)

    def next_action(self) -> tuple[Action, asyncio.Future[int]] | None:
        """Remove and return an action that is to be done."""
        return self._actions.popleft() if self._actions else None

    def _ask(
        self, command: str, action: Action, by: str | None, **values: Any
    ) -> asyncio.Future[int]:
        count: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        if self._ended:
            count.set_result(0)
            return count
        self._note(command, by, **values)
        self._actions.append((action, count))
        self._changed()
        return count

    def _note(self, command: str, by: str | None, **values: Any) -> None:
        change = ControlChange(
            time=self._wall_clock(), by=by or PROGRAM, command=command, values=values
        )
        if self._log is None:
            self._unlogged.append(change)
        elif not self._ended:
            try:
                self._log.append(change)
            except StorageError as error:  # the loop of the collection stops with it
                self.error = error

    def _changed(self) -> None:
        self.revision += 1
        if self._attached is not None:
            self._attached.wake()


def _chooser(
    which: Collection[RolloutKey] | Callable[[OpenAttempt], bool],
) -> Callable[[OpenAttempt], bool]:
    if callable(which):
        return which
    keys = frozenset(which)
    return lambda attempt: attempt.key in keys


def _settle(count: asyncio.Future[int], result: int) -> None:
    if not count.done():
        count.set_result(result)
