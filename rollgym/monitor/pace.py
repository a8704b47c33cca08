"""How fast rollouts end, lately.

An average since the start would take hours to show that a model endpoint slowed down; the last
few seconds alone would jump. So the pace is that of the last half minute, from a mark a second.
"""

from collections import deque

WINDOW = 30.0
MARK_INTERVAL = 1.0


class Pace:
    """The rate of a growing total. All times are of one monotonic clock."""

    def __init__(self, now: float) -> None:
        self._marks: deque[tuple[float, int]] = deque([(now, 0)])

    def mark(self, now: float, total: int) -> None:
        """Take note of the total; of several calls within a second one is kept."""
        if now - self._marks[-1][0] >= MARK_INTERVAL:
            self._marks.append((now, total))
        while len(self._marks) > 1 and self._marks[1][0] <= now - WINDOW:
            self._marks.popleft()

    def rate(self, now: float, total: int) -> float | None:
        """Per second; None before anything can be told."""
        time, before = self._marks[0]
        gained, elapsed = total - before, now - time
        return gained / elapsed if gained > 0 and elapsed > 0 else None
