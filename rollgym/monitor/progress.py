"""The progress display of a collection, as an observer.

Events arrive in the observer's thread, and the screen asks for a view from its own thread; a lock
protects the state. Starting and stopping the screen waits for its thread and therefore happens
outside the lock.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TextIO

from rollgym.closing import Closable
from rollgym.engine import (
    AttemptRecorded,
    AttemptStarted,
    CollectionStarted,
    Event,
    Held,
    StopRequested,
)
from rollgym.metrics import Summary
from rollgym.monitor.live_metrics import LiveMetrics, held_line, printable_line
from rollgym.monitor.progress_view import ProgressView
from rollgym.monitor.screen import LINE_INTERVAL, choose_screen
from rollgym.records import TRAITS, FailureKind

RATE_WINDOW = 30.0
MARK_INTERVAL = 1.0


class RecentRate:
    """The recent rate of a growing total. All times are of one monotonic clock.

    An average since the start would take hours to show that a model endpoint slowed down, and the
    last few seconds alone would jump. So the rate is that of the last half minute, from one mark
    per second.
    """

    def __init__(self, now: float) -> None:
        self._marks: deque[tuple[float, int]] = deque([(now, 0)])

    def mark(self, now: float, total: int) -> None:
        """Note the total; of several calls within a second, one is kept."""
        if now - self._marks[-1][0] >= MARK_INTERVAL:
            self._marks.append((now, total))
        while len(self._marks) > 1 and self._marks[1][0] <= now - RATE_WINDOW:
            self._marks.popleft()

    def rate(self, now: float, total: int) -> float | None:
        """The rate per second; None before there is one."""
        time, before = self._marks[0]
        gained, elapsed = total - before, now - time
        return gained / elapsed if gained > 0 and elapsed > 0 else None


class ProgressObserver(Closable):
    """Shows a collection on `stream` while it runs, and counts it in `metrics`.

    Pass `metrics.replay` to `open_run`, so that a resumed run starts from its numbers. Use it as a
    context manager, so that the terminal is restored after an error.
    """

    name = "progress"

    def __init__(
        self,
        stream: TextIO,
        *,
        endless: bool = False,
        line_interval: float = LINE_INTERVAL,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`endless` says that the number of rollouts is not known."""
        self.further: tuple[str, ...] = ()
        """Items of the command, which may be set at any time."""
        self._endless = endless
        self.metrics = LiveMetrics()
        self._clock = clock
        self._lock = threading.Lock()
        self._began = clock()
        self._recent = RecentRate(self._began)
        self._expected = 0
        self._resumed = 0
        self._added = 0
        self._ended = 0
        self._in_flight = 0
        self._limit = 0
        self._stopping: str | None = None
        self._held: str | None = None
        self._summary: Summary | None = None
        # Last, because a screen may request its first view at once.
        self._screen = choose_screen(stream, self.view, line_interval)

    def close(self) -> None:
        """Draw the last view. It is safe to call this again, and from another thread."""
        self._screen.stop()

    def observe(self, events: Sequence[Event]) -> None:
        """Process a batch of events."""
        with self._lock:
            self.metrics.observe(events)
            for event in events:
                self._process(event)
            self._recent.mark(self._clock(), self._ended)
            self._summary = None
        kinds = set(map(type, events))
        if CollectionStarted in kinds:
            self._screen.start()
        if self.metrics.finished:
            self._screen.stop()
        elif StopRequested in kinds or Held in kinds:
            self._screen.redraw()

    def view(self) -> ProgressView:
        """The present state."""
        with self._lock:
            if self._summary is None:
                self._summary = self.metrics.summary()
            summary, now = self._summary, self._clock()
            finished = self.metrics.finished
            resolved = self._resumed - self.metrics.reopened + self._added
            return ProgressView(
                expected=None if self._endless else self._expected,
                resolved=max(resolved, 0)
                if self._endless
                else min(max(resolved, 0), self._expected),
                further=self.further,
                elapsed=now - self._began,
                rate=self._recent.rate(now, self._ended),
                avg_reward=summary.avg_reward,
                success_rate=summary.success_rate,
                avg_tool_calls=_mean(summary, "tool_calls"),
                avg_response_length=_mean(summary, "response_length"),
                in_flight=None if finished else min(max(self._in_flight, 0), self._limit),
                limit=self._limit,
                retried=self.metrics.retried,
                failed=summary.counts.failed,
                omitted=summary.counts.omitted,
                failure=None if finished else _failure(summary),
                stopping=None if finished else self._stopping or self._held,
            )

    def _process(self, event: Event) -> None:
        match event:
            case AttemptStarted():
                self._in_flight += 1
                self._limit = event.limit
            case AttemptRecorded():
                self._in_flight -= 1
                self._ended += event.attempt.final
                self._added += event.attempt.final and event.replaced is None
            case CollectionStarted():
                self._expected = event.expected
                self._resumed = event.resumed
                self._began = self._clock()
                self._recent = RecentRate(self._began)
            case StopRequested():
                self._stopping = printable_line(event.reason)
            case Held(reasons=reasons):
                self._held = held_line(reasons)
            case _:
                pass


def _mean(summary: Summary, measure: str) -> float | None:
    return summary.measures[measure].mean if measure in summary.measures else None


def _failure(summary: Summary) -> str | None:
    """The most frequent kind of failure: of failed rollouts, or else of retried attempts."""
    if summary.failures_by_kind:
        kind, count = _most_frequent(summary.failures_by_kind)
        return f"failing: {count} x {kind} ({TRAITS[kind].meaning})"
    if summary.failed_attempts_by_kind:
        kind, count = _most_frequent(summary.failed_attempts_by_kind)
        return f"retrying: {count} x {kind} ({TRAITS[kind].meaning})"
    return None


def _most_frequent(counts: dict[FailureKind, int]) -> tuple[FailureKind, int]:
    return max(counts.items(), key=lambda item: item[1])
