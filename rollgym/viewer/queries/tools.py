"""Which tools were used how often, by the rollouts of a selection.

The table of tools has several rows for each entry, and each row must be looked up in the selection.
That is fastest in a byte for each record: a row then costs one look at one byte. The bytes of the
parts follow each other, as many for each as the longest of them needs; records behind that are in
no selection, and would be looked up among those of the next part.
"""

import sqlite3
from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise

import msgspec

MOST_TOOLS = 200
_MOST_MARKS = 32 << 20
_RECORD = (1 << 32) - 1


class ToolCount(msgspec.Struct, frozen=True):
    """In how many rollouts a tool was called, and how often."""

    name: str
    rollouts: int
    calls: int


def tools(connection: sqlite3.Connection, numbers: Sequence[int]) -> tuple[ToolCount, ...]:
    """Of the entries with these numbers, which are in order; the most used first."""
    if not numbers:
        return ()
    # Where the numbers of each part begin, and where those of the last one end.
    parts = range((numbers[-1] >> 32) + 2)
    begins = [bisect_left(numbers, part << 32) for part in parts]
    longest = 1 + max(numbers[end - 1] & _RECORD for end in begins if end)
    size = (len(begins) - 1) * longest
    if size <= _MOST_MARKS:
        marks = bytearray(size)
        for part, (begin, end) in enumerate(pairwise(begins)):
            offset = part * longest - (part << 32)
            for number in numbers[begin:end]:
                marks[number + offset] = 1
        record = f"(entry & {_RECORD})"
        marked = f"substr(?, (entry >> 32) * {longest} + {record} + 1, 1) = x'01'"
        condition = f"{record} < {longest} AND {marked}"
        value: bytes | str = bytes(marks)
    else:  # many parts of which one is long
        condition = "entry IN (SELECT value FROM json_each(?))"
        value = msgspec.json.encode(numbers).decode()
    rows = connection.execute(
        "SELECT name, count(*) AS rollouts, sum(calls) FROM tool "  # noqa: S608 - our own
        f"WHERE {condition} GROUP BY name ORDER BY rollouts DESC, name LIMIT ?",
        (value, MOST_TOOLS),
    )
    return tuple(ToolCount(*row) for row in rows)
