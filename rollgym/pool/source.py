"""The source of a pool's groups, and the run that grows by them.

Groups are drawn in chunks, ahead of their start: the run grows by a chunk (see `store/growth`), and
then its groups may start one by one, as slots become free and back-pressure allows it. A pool that
was opened again first goes on with the groups that it had drawn.

Groups are numbered from 0, for ever. The row of a group depends on the seed and its number only, so
a pool that is opened again draws the same groups. An epoch goes through every row once.

A source with a last group ends when trainers have acknowledged everything, so that all that a
running collection can do is possible until then.
"""

import asyncio
from array import array
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from random import Random

from rollgym.engine import LiveSource
from rollgym.pool.back_pressure import BackPressure
from rollgym.pool.settings import Order, PoolSettings
from rollgym.pool.state import PoolState
from rollgym.records import Task, derive_seed
from rollgym.rollouts.rows import TASK_INDEX
from rollgym.store import RunStore

CHUNK = 64
REMEMBERED_EPOCHS = 2


class Sampler:
    """Draws rows of a dataset, by their position."""

    def __init__(self, rows: int, seed: int, order: Order = Order.SHUFFLE) -> None:
        """Raises ValueError for a dataset without rows."""
        if rows < 1:
            raise ValueError("the dataset has no rows: there is nothing to draw")
        self._rows = rows
        self._seed = seed
        self._order = order
        self._shuffled = lru_cache(REMEMBERED_EPOCHS)(self._shuffle)

    def row(self, number: int) -> int:
        """The position of the row of a group."""
        epoch, place = divmod(number, self._rows)
        return place if self._order is Order.SEQUENTIAL else self._shuffled(epoch)[place]

    def _shuffle(self, epoch: int) -> "array[int]":
        rows = array("Q", range(self._rows))
        Random(derive_seed(self._seed, "epoch", epoch)).shuffle(rows)  # noqa: S311
        return rows


class GroupDraw:
    """The tasks of a run that a sampler draws from a dataset."""

    def __init__(self, dataset: Sequence[Task], sampler: Sampler, size: int) -> None:
        """`size` is the number of rollouts of a group."""
        self._dataset = dataset
        self._sampler = sampler
        self._size = size

    @classmethod
    def of(cls, dataset: Sequence[Task], settings: PoolSettings, seed: int) -> "GroupDraw":
        """As the settings of a pool say. Raises ValueError for a dataset without rows."""
        return cls(dataset, Sampler(len(dataset), seed, settings.order), settings.group_size)

    def task(self, number: int) -> Task:
        """The task of a group: its row is that of the dataset, with the number of the group."""
        row = self._dataset[self._sampler.row(number)].row
        if TASK_INDEX in row.fields:
            row = row.with_fields({TASK_INDEX: number})
        return Task(number, row, self._size)

    def dataset_row(self, number: int) -> int:
        """The index of the row of a group in the dataset."""
        return self._dataset[self._sampler.row(number)].index

    def tasks(self, start: int, end: int) -> list[Task]:
        return [self.task(number) for number in range(start, end)]


class GroupSource(LiveSource):
    """Gives the groups of one pool, up to `most`, and waits for trainers after the last one."""

    def __init__(
        self,
        store: RunStore,
        draw: GroupDraw,
        state: PoolState,
        back_pressure: BackPressure,
        most: int | None,
    ) -> None:
        self.started = 0
        """How many groups were given to the engine."""
        self._store = store
        self._draw = draw
        self._state = state
        self._back_pressure = back_pressure
        self._most = most
        self._wake: Callable[[], None] = lambda: None
        self._wanted = asyncio.Event()
        self._ended = False
        self._has_started_all = False

    @property
    def groups(self) -> int:
        return self._store.inputs.groups

    @property
    def expected(self) -> int:
        return self._store.inputs.expected

    @property
    def is_collected(self) -> bool:
        """Whether no group is started any more, and the filters have decided on all."""
        return self._has_started_all and not self._state.has_open(self._most or 0)

    def listen(self, more: Callable[[], None]) -> None:
        self._wake = more

    def wake(self) -> None:
        """Back-pressure may allow another group now."""
        self._wake()

    def __iter__(self) -> Iterator[Task | None]:
        number = self.groups
        # More may be drawn than are wanted now.
        for earlier in self._state.unfinished(min(number, self._most or number)):
            while not self._state.has(earlier) and self._back_pressure.hold():
                yield None
            yield self._start(earlier)
        while self._most is None or number < self._most:
            if self.groups - number < CHUNK // 2:
                self._wanted.set()
            if number >= self.groups or self._back_pressure.hold():
                yield None
            else:
                yield self._start(number)
                number += 1
        self._has_started_all = True
        while not self.is_collected or self._state.undelivered or self._state.leased:
            yield None

    async def keep_growing(self) -> None:
        """Draw groups when few are left, until `end_growth`. Raises StoreError."""
        while not self._ended:
            await self._wanted.wait()
            self._wanted.clear()
            drawn = self.groups
            end = drawn + CHUNK if self._most is None else min(drawn + CHUNK, self._most)
            if end > drawn and not self._ended:
                await self._store.grow(self._draw.tasks(drawn, end))
                self._wake()

    def end_growth(self) -> None:
        """Draw no further groups; those that are being drawn are written."""
        self._ended = True
        self._wanted.set()

    def _start(self, number: int) -> Task:
        self.started += 1
        self._state.group(number)
        return self._draw.task(number)
