"""Which row of the dataset each group works on.

Groups are numbered from 0, for ever. The row of a group depends on the seed and its number only, so
a pool that is opened again draws the same groups. An epoch goes through every row once.
"""

from array import array
from enum import StrEnum
from functools import lru_cache
from random import Random

from rollgym.records import derive_seed

REMEMBERED_EPOCHS = 2


class Order(StrEnum):
    """The order of the rows in an epoch."""

    SHUFFLE = "shuffle"
    """Another random order in every epoch."""
    SEQUENTIAL = "sequential"
    """The order of the dataset."""


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

    def epoch(self, number: int) -> int:
        """The epoch of a group, from 0."""
        return number // self._rows

    def _shuffle(self, epoch: int) -> "array[int]":
        rows = array("Q", range(self._rows))
        Random(derive_seed(self._seed, "epoch", epoch)).shuffle(rows)  # noqa: S311
        return rows
