"""When to try to start a browser again: a broken one must neither be given up nor spin."""

import math

from webgym.browser.pool.decisions import launch_pause

PROVEN_AGE = 10.0
"""A browser that lives so long was started well; one that dies sooner counts as a failed start."""

SAME_MOMENT = 1.0
LONGEST_PAUSE_AFTER_DEATH = 2.0


class Launches:
    """Starts that failed, in a row, and the pause after them."""

    def __init__(self) -> None:
        self.running = 0
        self.failures = 0
        self.last_failure: str | None = None
        self._failed_at = -math.inf
        self._not_before = 0.0

    def failed(self, cause: str, now: float, longest_pause: float = math.inf) -> None:
        self.failures += 1
        self.last_failure = cause
        self._failed_at = now
        self._not_before = now + min(launch_pause(self.failures), longest_pause)

    def died(self, age: float, cause: str, now: float) -> None:
        """A browser that had started ended by itself, or hung.

        Several that die at the same moment have one cause. And since each did start, the pauses
        stay short.
        """
        if age < PROVEN_AGE and now - self._failed_at > SAME_MOMENT:
            self.failed(cause, now, LONGEST_PAUSE_AFTER_DEATH)

    def proved(self, age: float, now: float) -> None:
        """A browser is this old and well; of interest if it was started after the last failure."""
        if PROVEN_AGE <= age <= now - self._failed_at:
            self.failures, self.last_failure = 0, None

    def pause(self, now: float) -> float:
        """How long to wait before the next start."""
        return max(0.0, self._not_before - now)
