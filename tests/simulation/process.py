"""One life of the process: opens the run and collects, in a loop of its own, until it ends."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from random import Random

from rollgym.engine import (
    AttemptRecorded,
    Control,
    Coverage,
    Stop,
    StuckWorkersError,
    collect,
)
from rollgym.metrics import Metrics
from rollgym.records import Task
from rollgym.store import Inputs, RunStore, StorageError
from tests.simulation.command import open_planned
from tests.simulation.controls import DEADLINE_AFTER, Change, make_change
from tests.simulation.counting import add_live, recount
from tests.simulation.disk import SimulatedCrash, SimulatedDisk
from tests.simulation.log import Asked, Log, Over, Pulled
from tests.simulation.loop import SimulatedLoop
from tests.simulation.plan import Plan
from tests.simulation.storage import Storage
from tests.simulation.story import Chapter, Ending
from tests.simulation.worker import SimulatedWorker

EPOCH = 1_700_000_000.0
LIFE_SECONDS = 100_000.0


class Process:
    """A process, the loop it runs in and the disk it sees. It lives once."""

    def __init__(
        self, plan: Plan, storage: Storage, chapter: Chapter, make_disk: type[SimulatedDisk]
    ) -> None:
        life = chapter.life
        self._plan = plan
        self._storage = storage
        self._chapter = chapter
        self._life = life
        self._loop = SimulatedLoop()
        self._log = Log(self._loop, storage)
        self._metrics = Metrics()
        self._store: RunStore | None = None
        self._disk = make_disk(
            storage,
            sync_seconds=life.sync_seconds,
            death=life.death,
            fault=life.fault,
            on_death=self._loop.kill,
            on_write=self._log.write,
        )

    def live(self) -> None:
        """Fill the chapter; on return nothing of the process is left but its files."""
        chapter = self._chapter
        try:
            chapter.coverage = self._loop.run(self._main())
            self._count(chapter)
            chapter.ending = Ending.RETURNED
        except (SimulatedCrash, asyncio.CancelledError, Exception) as error:  # noqa: BLE001 - a finding
            chapter.ending, chapter.error = _ending(error), error
        chapter.events = self._log.events
        chapter.complaints = self._loop.complaints
        chapter.fault = self._disk.struck
        self._release()
        death = self._life.death
        if self._disk.crash is not None and death is not None and death.machine:
            self._storage.lose_power(Random(death.luck))

    async def _main(self) -> Coverage:
        self._store = store = open_planned(
            self._plan,
            self._storage.directory,
            self._life,
            disk=self._disk,
            replay=self._metrics.add,
        )
        self._chapter.opened = True
        self._chapter.torn = store.torn is not None
        self._log.follow(store.journal_path)
        self._listen(store)
        stop = Stop()
        control = Control(clock=self._loop.time, wall_clock=self._wall_clock)
        self._schedule_faults(stop)
        self._schedule_changes(control)
        try:
            return await collect(
                _WatchedSource(store.inputs, self._log),
                SimulatedWorker(self._plan, self._chapter.number, self._log, self._loop),
                store,
                self._plan.policy_of(self._life),
                stop=stop,
                listener=self._hear,
                control=control,
                wall_clock=self._wall_clock,
            )
        finally:
            self._chapter.seconds = self._loop.time()

    def _wall_clock(self) -> float:
        return EPOCH + LIFE_SECONDS * self._chapter.number + self._loop.time()

    def _listen(self, store: RunStore) -> None:
        """Hear of every acknowledgement just before the engine does."""
        subscribe = store.commit.on_durable

        def on_durable(acknowledge: Callable[[int], None]) -> None:
            def heard(count: int) -> None:
                self._log.acknowledge(count)
                acknowledge(count)

            subscribe(heard)

        store.commit.on_durable = on_durable  # type: ignore[method-assign]

    def _schedule_faults(self, stop: Stop) -> None:
        death, task = self._life.death, asyncio.current_task()
        assert task is not None
        if death is not None and death.at is not None:
            self._loop.call_at(death.at, self._disk.die, "in the middle of things")
        for number, at in enumerate(self._life.stops, start=1):
            self._loop.call_at(at, self._ask, f"stop {number}", stop.request)
        if self._life.cancelled_at is not None:
            self._loop.call_at(self._life.cancelled_at, self._ask, "cancel", task.cancel)

    def _hear(self, event: AttemptRecorded, over: bool) -> None:
        if over:
            self._log.add(Over(self._log.now, event.attempt.task))

    def _schedule_changes(self, control: Control) -> None:
        for each in self._life.changes:
            act = partial(make_change, control, each, self._wall_clock)
            self._loop.call_at(each.at, self._ask, each.name, act)
            if each.change is Change.DEADLINE:
                passed = each.at + DEADLINE_AFTER
                self._loop.call_at(passed, self._ask, "the deadline passes", lambda: None)

    def _ask(self, what: str, act: Callable[[], object]) -> None:
        self._log.add(Asked(self._log.now, what))
        with suppress(SimulatedCrash):  # the loop ends by it
            act()

    def _release(self) -> None:
        """What the operating system does when a process ends."""
        if self._store is not None:
            self._store.close()
        self._disk.bury()

    def _count(self, chapter: Chapter) -> None:
        """The metrics of this life's tasks, live and from disk."""
        before = chapter.current_before
        add_live(self._metrics, (event.record for event in self._log.acknowledged), before)
        chapter.live_summary = self._metrics.summary()
        chapter.recounted_summary = recount(
            self._storage.directory, self._plan.indexes(self._life.shard)
        ).summary()


class _WatchedSource:
    """The run's inputs; the log hears of every task that is taken."""

    def __init__(self, inputs: Inputs, log: Log) -> None:
        self._inputs = inputs
        self._log = log
        self.groups = inputs.groups
        self.expected = inputs.expected

    def __iter__(self) -> Iterator[Task]:
        for task in self._inputs:
            self._log.add(Pulled(self._log.now, task.index))
            yield task


def _ending(error: BaseException) -> Ending:
    match error:
        case SimulatedCrash():
            return Ending.DIED
        case StorageError():
            return Ending.STORAGE
        case StuckWorkersError():
            return Ending.STUCK
        case asyncio.CancelledError():
            return Ending.CANCELLED
        case _:
            return Ending.BROKEN
