"""A set of rollout keys, so that resuming a million costs little memory.

Where the tasks' indexes are dense, a key takes a few bits; where they are scattered, a few hundred
bytes.
"""

_CHUNK_BITS = 9
_CHUNK_BYTES = 1 << (_CHUNK_BITS - 3)
_CHUNK_MASK = (1 << _CHUNK_BITS) - 1


class KeySet:
    """Tasks and repeats, in chunks of bits that exist only where something was added."""

    __slots__ = ("_chunks", "_size")

    def __init__(self) -> None:
        self._chunks: dict[tuple[int, int], bytearray] = {}
        self._size = 0

    def add(self, task: int, repeat: int) -> bool:
        """Whether it is new."""
        place = (repeat, task >> _CHUNK_BITS)
        chunk = self._chunks.get(place)
        if chunk is None:
            chunk = self._chunks[place] = bytearray(_CHUNK_BYTES)
        bit = task & _CHUNK_MASK
        if chunk[bit >> 3] >> (bit & 7) & 1:
            return False
        chunk[bit >> 3] |= 1 << (bit & 7)
        self._size += 1
        return True

    def has(self, task: int, repeat: int) -> bool:
        chunk = self._chunks.get((repeat, task >> _CHUNK_BITS))
        if chunk is None:
            return False
        bit = task & _CHUNK_MASK
        return bool(chunk[bit >> 3] >> (bit & 7) & 1)

    def __len__(self) -> int:
        return self._size
