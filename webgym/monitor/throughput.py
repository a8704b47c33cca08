"""How fast rollouts end.

Web rollouts take minutes, and how many end in a minute ranges from less than one to hundreds. So
the pace is that of the last hundred ends, however long they took; while none ends it falls.
"""

from collections import deque

ENDS = 100


class Throughput:
    """The rate of ends. All times are of one monotonic clock."""

    def __init__(self, now: float) -> None:
        self._times: deque[float] = deque([now], maxlen=ENDS + 1)

    def add(self, now: float) -> None:
        """A rollout has ended."""
        self._times.append(now)

    def per_second(self, now: float) -> float | None:
        """None before the first end."""
        elapsed = now - self._times[0]
        ends = len(self._times) - 1
        return ends / elapsed if ends and elapsed > 0 else None
