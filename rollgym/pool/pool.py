"""A pool that never ends: rollouts are collected in groups while a trainer takes them.

A pool is one run that grows. Its tasks are the drawn groups, and the engine collects them as those
of any other run (`source`). When all rollouts of a group have an outcome, the filters decide
whether it is delivered; the trainer leases finished groups and acknowledges them (`book`). The
journal is the truth about rollouts and the delivery log about deliveries, so the pool can be killed
at any time and opened again.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from functools import partial
from typing import Any

from rollgym.closing import AsyncClosable
from rollgym.engine import (
    AttemptRecorded,
    Control,
    Coverage,
    EngineError,
    Fixed,
    Observer,
    Policy,
    Stop,
    Worker,
    collect,
)
from rollgym.engine.control import POLICY, VERSION, OpenAttempt, PolicyVersion
from rollgym.engine.work import main_error
from rollgym.pool.book import Acknowledgement, Book
from rollgym.pool.delivery_log import DeliveryLog
from rollgym.pool.filters import Filters
from rollgym.pool.group_reader import GroupReader, InThread, RowOf
from rollgym.pool.groups import DeliveredGroup, PoolGroup
from rollgym.pool.pacing import Pacing
from rollgym.pool.settings import OnPolicyChange, PoolSettings
from rollgym.pool.slots import Slots
from rollgym.pool.source import GroupDraw, GroupSource
from rollgym.records import Task
from rollgym.rollouts.output_row import output_row
from rollgym.store import (
    RunStore,
    StoreError,
    read_changes,
    run_records,
)

ITERATOR = "iterator"
"""The name of the trainer that iterates over the pool."""


class PoolError(EngineError):
    """The pool has stopped because of an error, and delivers nothing more."""


class RolloutPool(AsyncClosable):
    """A pool on an open run. Use it in an `async with` block; `serve_rollouts` opens the run too.

    Iterating over it gives one group at a time; it ends with the pool.
    """

    def __init__(
        self,
        store: RunStore,
        dataset: Sequence[Task],
        worker: Worker,
        settings: PoolSettings,
        *,
        policy: Policy | None = None,
        observers: Sequence[Observer] = (),
        stop: Stop | None = None,
        control: Control | None = None,
        row_of: RowOf = output_row,
        wall_clock: Callable[[], float] = time.time,
        in_thread: InThread = asyncio.to_thread,
    ) -> None:
        """`store` is the run that `open_pool_run` opened. `row_of` makes the rows of rollouts.

        `in_thread` runs what reads the journal.
        """
        self.settings = settings
        self.stop = stop or Stop()
        self.control = control or Control(wall_clock=wall_clock)
        self._store = store
        self._policy = policy or Policy()
        self._observers = observers
        self._wall_clock = wall_clock
        draw = GroupDraw.of(dataset, settings, store.seed)
        self._log = DeliveryLog(store.directory, store.disk)
        self._book = Book(self._log, settings.group_size, wall_clock)
        self._pacing = Pacing(
            self._book,
            self._most_slots,
            settings.max_undelivered,
            settings.max_staleness,
        )
        self._source = GroupSource(store, draw, self._book, self._pacing, settings.max_groups)
        self._slots = Slots(worker, self._slot_limit, self._holding)
        self._filters = Filters(
            drop_short=not settings.deliver_short,
            drop_equal_rewards=not settings.keep_equal_rewards,
            own=settings.group_filter,
        )
        self._reader = GroupReader(store.journal_path, draw, self._book, row_of, in_thread)
        self._to_judge: asyncio.Queue[PoolGroup] = asyncio.Queue()
        self._changed = asyncio.Event()
        self._running: asyncio.Task[Coverage] | None = None
        self._coverage: Coverage | None = None
        self._error: BaseException | None = None
        self._is_settling = False

    # The life of the pool.

    async def start(self) -> None:
        """Read what the run has and begin to collect. Raises StoreError."""
        try:
            self._load()
        except BaseException:
            self._close_files()
            raise
        self._running = asyncio.create_task(self._run(), name="rollout pool")

    def _load(self) -> None:
        """Raises StoreError."""
        self._log.open()
        for change in read_changes(self._store.directory):
            version = change.values.get(VERSION)
            if change.command == POLICY and isinstance(version, str):
                self._book.add_version(version, change.time)
        for group in self._book.load(run_records(self._store.directory)):
            self._to_judge.put_nowait(group)
        self.control.on_policy_version(self._heard_version)
        if not len(self._book.versions):
            self.control.set_policy_version(self.settings.first_version)

    async def _run(self) -> Coverage:
        try:
            async with asyncio.TaskGroup() as services:
                services.create_task(self._source.keep_growing())
                judging = services.create_task(self._judge_groups())
                self._coverage = await collect(
                    self._source,
                    self._slots,
                    self._store,
                    self._policy,
                    self._observers,
                    stop=self.stop,
                    listener=self._heard,
                    control=self.control,
                    wall_clock=self._wall_clock,
                )
                await self._to_judge.join()
                self._source.end_growth()
                judging.cancel()
        except BaseExceptionGroup as group:
            self._error = main_error(group)
            raise self._error from self._error.__cause__
        except BaseException as error:
            self._error = error
            raise
        finally:
            self._notify()
        return self._coverage

    async def ended(self) -> Coverage:
        """Wait until the collection has ended. Raises what `collect` raises."""
        if self._running is None:
            raise RuntimeError("the pool was not started")
        return await asyncio.shield(self._running)

    async def settled(self) -> None:
        """After the collection: wait until trainers need nothing more, or a stop is requested.

        They need nothing more when every finished group was acknowledged or dropped.
        """
        self.stop.listen(self._notify)
        self._is_settling = True
        while (self._book.undelivered or self._book.leased) and not self.stop.level:
            await self._changed.wait()
        self._is_settling = False
        self._notify()

    async def __aenter__(self) -> "RolloutPool":
        await self.start()
        return self

    async def close(self) -> None:
        """Stop as after Ctrl-C: running rollouts may finish within the policy's `drain_timeout`.

        What is finished and not delivered stays, and is delivered when the pool is opened again.
        """
        try:
            if self._running is not None:
                await self._stopped(self._running)
                with contextlib.suppress(StoreError):
                    await self._log.sync()
        finally:
            self._close_files()

    async def _stopped(self, running: asyncio.Task[Coverage]) -> None:
        """Wait for the collection to stop; where the caller is cancelled, it is cancelled too."""
        if not running.done():
            self.stop.request()
        try:
            await asyncio.wait((running,))
        except asyncio.CancelledError:
            running.cancel()
            await asyncio.wait((running,))
            raise
        finally:
            if running.done() and not running.cancelled():
                running.exception()  # those who ask the pool get it

    def _close_files(self) -> None:
        self._log.close()
        self._reader.close()

    # Collecting.

    def _heard(self, event: AttemptRecorded, last: bool) -> None:
        """A record is synced; `last` says that its group is finished."""
        attempt = event.attempt
        self._book.note(attempt, event.offset, current=attempt.final)
        if last and not self._book.is_judged(attempt.task):
            self._to_judge.put_nowait(self._book.group(attempt.task))

    def _heard_version(self, current: PolicyVersion) -> None:
        """The policy has a new version."""
        version = current.version
        self._book.add_version(version, current.wall)
        match self.settings.on_policy_change:
            case OnPolicyChange.CUT:
                self.control.cut(partial(_is_older, version), f"the policy has version {version}")
            case OnPolicyChange.DROP:
                self.control.drop(partial(_is_older, version), f"the policy has version {version}")
            case OnPolicyChange.GO_ON:
                pass
        self._notify()

    async def _judge_groups(self) -> None:
        """Decide about finished groups, until cancelled. Raises StoreError."""
        while True:
            group = await self._to_judge.get()
            if self._book.is_judged(group.number) or self._may_be_refilled(group):
                self._to_judge.task_done()
                continue

            async def read(group: PoolGroup = group) -> DeliveredGroup:
                return (await self._reader.read([group]))[0]

            reason = await self._filters.reason_to_drop(group, read)
            if reason is None:
                self._book.add_ready(group)
            else:
                self._book.drop(group, reason)
            self._to_judge.task_done()
            self._notify()

    def _may_be_refilled(self, group: PoolGroup) -> bool:
        """Whether a finished group still waits for rollouts.

        An earlier process may have left refills, which run now; then the group is heard of again.
        While the collection stops, nothing is refilled, but the next process may do it.
        """
        progress = self._store.progress
        if not progress.is_over(group.number, group.size):
            return True
        has_budget = progress.reruns(group.number) < self._policy.refills
        return bool(self.stop.level) and group.short is not None and has_budget

    def _notify(self) -> None:
        """Something has changed: trainers look again, and the source asks the pacing again."""
        self._slots.observe()
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        self._source.wake()

    # The side of the trainer.

    async def next_groups(
        self, trainer: str = ITERATOR, most: int = 1, wait: float = 0.0, *, restarted: bool = False
    ) -> list[DeliveredGroup]:
        """Lease up to `most` finished groups to a trainer; wait up to `wait` seconds for the first.

        With `restarted`, the trainer gets again what it had and did not acknowledge. Raises
        PoolError and StoreError when the pool has stopped because of an error.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait
        if restarted:
            self._book.release(trainer)
        self._pacing.waiting += 1
        try:
            while True:
                changed = self._changed
                lease_ends = self._book.expire(loop.time())
                if groups := self._deliver(trainer, most):
                    return await self._read_leased(groups)
                if self._source_is_idle:
                    self._source.wake()
                left = deadline - loop.time()
                if left <= 0 or (self._has_ended and not self._is_settling):
                    return []
                until = min(deadline, deadline if lease_ends is None else lease_ends)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout_at(until):
                        await changed.wait()
        finally:
            self._pacing.waiting -= 1

    async def acknowledge(
        self, groups: DeliveredGroup | str | Iterable[str], trainer: str = ITERATOR
    ) -> Acknowledgement:
        """Say that groups, or those of these ids, are not needed again.

        On return this is synced to disk. Raises PoolError, StoreError.
        """
        match groups:
            case DeliveredGroup():
                ids: Iterable[str] = (groups.id,)
            case str():
                ids = (groups,)
            case _:
                ids = groups
        self._require_running()
        result = self._book.acknowledge(ids, trainer)
        await self._log.sync()
        self._notify()
        return result

    async def set_policy_version(self, version: str, *, by: str = ITERATOR) -> None:
        """Say that the policy has a new version. On return this is synced to disk.

        `by` names who says it. Raises PoolError, StoreError, and ValueError for a text that cannot
        be a version.
        """
        self._require_running()
        self.control.set_policy_version(version, by=by)
        await self.control.flush()
        self._require_running()

    def status(self) -> dict[str, Any]:
        """The counts of the pool."""
        book = self._book
        return {
            "groups": {
                "drawn": self._source.groups,
                "started": self._source.started,
                **book.counts(),
            },
            **book.numbers(),
            "filter_errors": self._filters.errors,
            "slots": self._slots.numbers(),
            "holding": self._holding(),
            "trainers_waiting": self._pacing.waiting,
            "stopping": bool(self.stop.level),
        }

    @property
    def policy_version(self) -> str:
        return self._book.versions.current

    async def __aiter__(self) -> AsyncIterator[DeliveredGroup]:
        while True:
            groups = await self.next_groups(wait=self.settings.lease_seconds)
            if not groups and self._has_ended:
                return
            for group in groups:
                yield group

    @property
    def _has_ended(self) -> bool:
        """Whether no further group will be finished."""
        return self._running is None or self._running.done()

    @property
    def _source_is_idle(self) -> bool:
        return not self._has_ended and not self._slots.running

    def _holding(self) -> str | None:
        """Why free slots are not filled."""
        return ", ".join(self.control.holds) or self._pacing.hold()

    def _slot_limit(self) -> int | None:
        """The number of slots; None where it adapts."""
        chosen = self._policy.concurrency
        return self.control.concurrency or (chosen.limit if isinstance(chosen, Fixed) else None)

    def _most_slots(self) -> int:
        chosen = self._policy.concurrency
        most = chosen.limit if isinstance(chosen, Fixed) else chosen.maximum
        return self.control.concurrency or most

    def _require_running(self) -> None:
        """Raises the error that stopped the pool."""
        if isinstance(self._error, StoreError | EngineError):
            raise self._error
        if self._error is not None:
            raise PoolError(f"the pool has stopped: {self._error!r}") from self._error

    def _deliver(self, trainer: str, most: int) -> list[PoolGroup]:
        self._require_running()
        until = asyncio.get_running_loop().time() + self.settings.lease_seconds
        before = self._book.undelivered
        groups = self._book.deliver(trainer, most, until, self.settings.max_staleness)
        if self._book.undelivered != before:
            self._notify()
        return groups

    async def _read_leased(self, groups: list[PoolGroup]) -> list[DeliveredGroup]:
        """Read groups for a trainer that may go away meanwhile."""
        try:
            await self._log.sync()
            return await self._reader.read(groups)
        except BaseException:
            self._book.take_back(groups)
            self._notify()
            raise


def _is_older(version: str, attempt: OpenAttempt) -> bool:
    """Whether an attempt began with another version of the policy."""
    return attempt.policy_version != version
