"""When anything was being worked on.

A rate over the time from first to last record would punish a run for having been killed on Friday
and resumed on Monday. So we count active seconds: the whole seconds of the wall clock during which
at least one attempt was under way. They are bits, 3600 in an integer for each hour, and merging is
a bitwise OR: a second is counted once, whoever reports it and how often. A month takes 350 kB.
"""

from math import floor
from typing import Self

_HOUR = 3600
LONGEST = 7 * 24 * _HOUR
"""No attempt marks more seconds than this, however long it says it took."""


class Activity:
    """The set of active seconds."""

    __slots__ = ("_hours",)

    def __init__(self) -> None:
        self._hours: dict[int, int] = {}

    def mark(self, started: float, seconds: float) -> None:
        """Mark every whole second that [started, started + seconds] touches."""
        first = floor(started)
        last = max(first, floor(started + min(seconds, LONGEST)))
        first_hour, first_bit = divmod(first, _HOUR)
        last_hour, last_bit = divmod(last, _HOUR)
        for hour in range(first_hour, last_hour + 1):
            low = first_bit if hour == first_hour else 0
            high = last_bit if hour == last_hour else _HOUR - 1
            bits = ((1 << (high - low + 1)) - 1) << low
            self._hours[hour] = self._hours.get(hour, 0) | bits

    def merge(self, other: Self) -> None:
        for hour, bits in other._hours.items():
            self._hours[hour] = self._hours.get(hour, 0) | bits

    @property
    def seconds(self) -> int:
        """How many seconds were active."""
        return sum(bits.bit_count() for bits in self._hours.values())
