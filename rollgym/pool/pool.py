"""A pool that never ends: rollouts are collected in groups while a trainer takes them.

A pool is one run that grows. Its tasks are the drawn groups, and the engine collects them as those
of any other run (`source`). When all rollouts of a group have an outcome, the filters decide
whether it is delivered (`filters`); the trainer leases finished groups and acknowledges them
(`leasing`). Which group is where is in `state`. The journal is the truth about rollouts
and the delivery log about deliveries, so the pool can be killed at any time and opened again.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any

from rollgym.closing import AsyncClosable
from rollgym.engine import (
    AttemptRecorded,
    Control,
    Coverage,
    EngineError,
    Observer,
    Policy,
    Stop,
    Worker,
    collect,
)
from rollgym.engine.control import POLICY, VERSION, PolicyVersion
from rollgym.engine.coverage import OpenAttempt
from rollgym.engine.work import main_error
from rollgym.pool.back_pressure import BackPressure, Slots
from rollgym.pool.delivery_log import DeliveryLog
from rollgym.pool.filters import Filtering, Filters
from rollgym.pool.groups import DeliveredGroup, PoolGroup
from rollgym.pool.leasing import GroupReader, InThread, Leasing, RowOf
from rollgym.pool.settings import OnPolicyChange, PoolSettings
from rollgym.pool.source import GroupDraw, GroupSource
from rollgym.pool.state import Acknowledgement, PoolState
from rollgym.records import Task
from rollgym.rollouts.output_row import output_row
from rollgym.store import RunStore, StoreError, read_changes, run_records

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
        self.control.back_pressure = self._holding
        self._store = store
        self._policy = policy or Policy()
        self._observers = observers
        self._wall_clock = wall_clock
        draw = GroupDraw.of(dataset, settings, store.seed)
        self._log = DeliveryLog(store.directory, store.disk)
        self._state = PoolState(self._log, settings.group_size, wall_clock)
        self._slots = Slots(worker, self._policy.concurrency, self.control, self._holding)
        self._back_pressure = BackPressure(
            self._state, self._slots, settings.max_undelivered, settings.max_staleness
        )
        self._source = GroupSource(
            store, draw, self._state, self._back_pressure, settings.max_groups
        )
        reader = GroupReader(store.journal_path, draw, self._state, row_of, in_thread)
        self._reader = reader
        self._filters = Filters(
            drop_short=not settings.deliver_short,
            drop_equal_rewards=not settings.keep_equal_rewards,
            own=settings.group_filter,
        )
        self._filtering = Filtering(
            self._state,
            self._filters,
            reader,
            is_refilled=self._is_refilled,
            decided=self._notify,
        )
        self._leasing = Leasing(
            self._state,
            self._log,
            reader,
            self._back_pressure,
            settings,
            is_over=self._is_over,
            wake=self._wake_if_idle,
            changed=self._notify,
        )
        self._running: asyncio.Task[Coverage] | None = None
        self._coverage: Coverage | None = None
        self._error: BaseException | None = None

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
                self._state.add_version(version, change.time)
        for group in self._state.load(run_records(self._store.directory)):
            self._filtering.put(group)
        self._store.progress.seal(self._state.is_decided)
        self.control.on_policy_version(self._on_version)
        if not len(self._state.versions):
            self.control.set_policy_version(self.settings.first_version)

    async def _run(self) -> Coverage:
        try:
            async with asyncio.TaskGroup() as services:
                services.create_task(self._source.keep_growing())
                filtering = services.create_task(self._filtering.run())
                self._coverage = await collect(
                    self._source,
                    self._slots,
                    self._store,
                    self._policy,
                    self._observers,
                    stop=self.stop,
                    listener=self._on_record,
                    control=self.control,
                    wall_clock=self._wall_clock,
                )
                await self._filtering.finish()
                self._source.end_growth()
                filtering.cancel()
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
        """Wait until the collection has ended. Raises what `collect` raises.

        It ends after a stop, and where the last of `max_groups` was acknowledged or dropped.
        """
        if self._running is None:
            raise RuntimeError("the pool was not started")
        return await asyncio.shield(self._running)

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

    def _on_record(self, event: AttemptRecorded, last: bool) -> None:
        """A record is synced; `last` says that its group is finished."""
        attempt = event.attempt
        self._state.note(attempt, event.offset, current=attempt.final)
        if last and not self._state.is_filtered(attempt.task):
            self._filtering.put(self._state.group(attempt.task))

    def _on_version(self, current: PolicyVersion) -> None:
        """The policy has a new version."""
        version = current.version
        self._state.add_version(version, current.wall)
        match self.settings.on_policy_change:
            case OnPolicyChange.CUT:
                self.control.cut(self._is_older, f"the policy has version {version}")
            case OnPolicyChange.DROP:
                self.control.drop(self._is_older, f"the policy has version {version}")
            case OnPolicyChange.GO_ON:
                pass
        self._notify()

    def _is_older(self, attempt: OpenAttempt) -> bool:
        """Whether an attempt began before the policy had the version that it has now."""
        return attempt.policy_version != self.control.policy_version

    def _is_over(self, group: PoolGroup) -> bool:
        """Whether all rollouts of a group have an outcome that stays."""
        return self._store.progress.is_over(group.number, group.size)

    def _is_refilled(self, group: PoolGroup) -> bool:
        """Whether a finished group still waits for rollouts.

        An earlier process may have left refills, which run now; then the group is finished again.
        While the collection stops, nothing is refilled, but the next process may do it.
        """
        if not self._is_over(group):
            return True
        has_budget = self._store.progress.reruns(group.number) < self._policy.refills
        return bool(self.stop.level) and group.short is not None and has_budget

    def _notify(self) -> None:
        """Something has changed: trainers look again, and the source may start a group."""
        self._slots.observe()
        self._leasing.notify()
        self._source.wake()

    def _wake_if_idle(self) -> None:
        """A trainer waits: it is always served where nothing runs."""
        if not self._has_ended() and not self._slots.running:
            self._source.wake()

    # The side of the trainer.

    async def next_groups(
        self, trainer: str = ITERATOR, most: int = 1, wait: float = 0.0, *, restarted: bool = False
    ) -> list[DeliveredGroup]:
        """Lease up to `most` finished groups to a trainer; wait up to `wait` seconds for the first.

        With `restarted`, the trainer gets again what it had and did not acknowledge. Raises
        PoolError and StoreError when the pool has stopped because of an error.
        """
        return await self._leasing.lease(
            trainer, most, wait, restarted=restarted, has_ended=self._has_ended
        )

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
        return await self._leasing.acknowledge(ids, trainer)

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
        state = self._state
        return {
            "groups": {
                "drawn": self._source.groups,
                "started": self._source.started,
                **state.counts(),
            },
            **state.numbers(),
            "filter_errors": self._filters.errors,
            "slots": self._slots.numbers(),
            "holding": self._holding(),
            "trainers_waiting": self._back_pressure.waiting,
            "stopping": bool(self.stop.level),
        }

    @property
    def policy_version(self) -> str:
        return self._state.versions.current

    async def __aiter__(self) -> AsyncIterator[DeliveredGroup]:
        lease_seconds = self.settings.lease_seconds
        while True:
            groups = await self._leasing.lease(
                ITERATOR, 1, lease_seconds, restarted=False, has_ended=self._has_delivered_all
            )
            if not groups and self._has_delivered_all():
                return
            for group in groups:
                yield group

    def _has_ended(self) -> bool:
        """Whether no further group will be finished. Raises the error that stopped the pool."""
        self._require_running()
        return self._running is None or self._running.done()

    def _has_delivered_all(self) -> bool:
        """Whether the last group was delivered; it need not be acknowledged."""
        return self._has_ended() or (self._source.is_collected and not self._state.undelivered)

    def _holding(self) -> str | None:
        """Why free slots are not filled."""
        if self.control.holds:
            return ", ".join(self.control.holds)
        if self._leasing.is_full:
            return f"trainers have {self._state.leased} groups and acknowledge none"
        if self._source.is_collected:
            return "every group is collected, and trainers take the last ones"
        return self._back_pressure.hold()

    def _require_running(self) -> None:
        """Raises the error that stopped the pool."""
        if isinstance(self._error, StoreError | EngineError):
            raise self._error
        if self._error is not None:
            raise PoolError(f"the pool has stopped: {self._error!r}") from self._error
