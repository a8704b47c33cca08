"""A map from integers to integers in a few bytes each, for files of millions of rows."""

from array import array
from collections.abc import Iterator

_EMPTY = 0
_INITIAL_SIZE = 1024


class CompactMap:
    """Several values may have the same key: `candidates` gives them all, oldest first.

    Open addressing in two arrays, at most half full.
    """

    __slots__ = ("_keys", "_mask", "_size", "_values")

    def __init__(self) -> None:
        self._size = 0
        self._mask = _INITIAL_SIZE - 1
        self._keys, self._values = _zeros(_INITIAL_SIZE), _zeros(_INITIAL_SIZE)

    def __len__(self) -> int:
        return self._size

    def candidates(self, key: int) -> Iterator[int]:
        """The values that were added under this key. Keys are from 0 to 2**64 - 1."""
        slot = _scrambled(key) & self._mask
        while (value := self._values[slot]) != _EMPTY:
            if self._keys[slot] == key:
                yield value - 1
            slot = (slot + 1) & self._mask

    def has(self, key: int) -> bool:
        return next(self.candidates(key), None) is not None

    def add(self, key: int, value: int) -> None:
        if 2 * (self._size + 1) > len(self._keys):
            self._grow()
        self._insert(key, value + 1)
        self._size += 1

    def _insert(self, key: int, stored: int) -> None:
        slot = _scrambled(key) & self._mask
        while self._values[slot] != _EMPTY:
            slot = (slot + 1) & self._mask
        self._keys[slot], self._values[slot] = key, stored

    def _grow(self) -> None:
        """Double the table.

        Copying starts at an empty slot, so that values of one key keep the order in which they were
        added.
        """
        keys, values, mask = self._keys, self._values, self._mask
        size = 2 * len(keys)
        self._mask = size - 1
        self._keys, self._values = _zeros(size), _zeros(size)
        empty = values.index(_EMPTY)
        for distance in range(len(keys)):
            slot = (empty + distance) & mask
            if values[slot] != _EMPTY:
                self._insert(keys[slot], values[slot])


def _zeros(count: int) -> "array[int]":
    return array("Q", (0,)) * count


def _scrambled(key: int) -> int:
    """Spread keys that are close together over the whole table."""
    return (key * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF) >> 20
