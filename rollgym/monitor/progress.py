"""The progress of a collection, as an observer.

Events arrive in the observer's thread, and the screen asks for a view from its own; a lock stands
between the two. Starting and stopping the screen waits for its thread, and so happens outside it.
"""

import threading
import time
from collections.abc import Callable, Sequence
from typing import TextIO

from rollgym.engine import (
    AttemptRecorded,
    AttemptStarted,
    CollectionStarted,
    Event,
    StopRequested,
)
from rollgym.metrics import Summary
from rollgym.monitor.live_metrics import LiveMetrics
from rollgym.monitor.pace import Pace
from rollgym.monitor.printable import printable_line
from rollgym.monitor.progress_view import ProgressView
from rollgym.monitor.screen import LINE_INTERVAL, choose_screen
from rollgym.records import TRAITS, FailureKind


class ProgressObserver:
    """Shows a collection on `stream` while it runs, and feeds `metrics` on the way.

    Hand `metrics.replay` to `open_run` first, so that a resumed run starts from its numbers. Used
    as a context manager it gives the terminal back whatever happens.
    """

    name = "progress"

    def __init__(
        self,
        stream: TextIO,
        *,
        line_interval: float = LINE_INTERVAL,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.metrics = LiveMetrics()
        self._clock = clock
        self._lock = threading.Lock()
        self._began = clock()
        self._pace = Pace(self._began)
        self._expected = 0
        self._resumed = 0
        self._added = 0
        self._ended = 0
        self._under_way = 0
        self._limit = 0
        self._stopping: str | None = None
        self._summary: Summary | None = None
        # Last, because a screen may ask for its first view at once.
        self._screen = choose_screen(stream, self.view, line_interval)

    def __enter__(self) -> "ProgressObserver":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Draw for the last time. Safe to call again, and from another thread."""
        self._screen.stop()

    def observe(self, events: Sequence[Event]) -> None:
        """Take in a batch of events."""
        with self._lock:
            self.metrics.observe(events)
            for event in events:
                self._take_in(event)
            self._pace.mark(self._clock(), self._ended)
            self._summary = None
        if any(isinstance(event, CollectionStarted) for event in events):
            self._screen.start()
        if self.metrics.finished:
            self._screen.stop()
        elif any(isinstance(event, StopRequested) for event in events):
            self._screen.nudge()

    def view(self) -> ProgressView:
        """The present moment."""
        with self._lock:
            if self._summary is None:
                self._summary = self.metrics.summary()
            summary, now = self._summary, self._clock()
            finished = self.metrics.finished
            settled = self._resumed - self.metrics.reopened + self._added
            return ProgressView(
                expected=self._expected,
                settled=min(max(settled, 0), self._expected),
                elapsed=now - self._began,
                rate=self._pace.rate(now, self._ended),
                avg_reward=summary.avg_reward,
                success_rate=summary.success_rate,
                avg_tool_calls=_mean(summary, "tool_calls"),
                avg_response_length=_mean(summary, "response_length"),
                in_flight=None if finished else min(max(self._under_way, 0), self._limit),
                limit=self._limit,
                retried=self.metrics.retried,
                failed=summary.counts.failed,
                omitted=summary.counts.omitted,
                trouble=None if finished else _trouble(summary),
                stopping=None if finished else self._stopping,
            )

    def _take_in(self, event: Event) -> None:
        match event:
            case CollectionStarted():
                self._expected = event.expected
                self._resumed = event.resumed
                self._began = self._clock()
                self._pace = Pace(self._began)
            case AttemptStarted():
                self._under_way += 1
                self._limit = event.limit
            case AttemptRecorded():
                self._under_way -= 1
                self._ended += event.attempt.final
                self._added += event.attempt.final and event.replaced is None
            case StopRequested():
                self._stopping = printable_line(f"stopping: {event.reason}")
            case _:
                pass


def _mean(summary: Summary, measure: str) -> float | None:
    return summary.measures[measure].mean if measure in summary.measures else None


def _trouble(summary: Summary) -> str | None:
    """The most frequent kind of failure: of rollouts that failed, else of attempts retried."""
    if summary.failures_by_kind:
        kind, count = _most_frequent(summary.failures_by_kind)
        return f"failing: {count} x {kind} ({TRAITS[kind].meaning})"
    if summary.failed_attempts_by_kind:
        kind, count = _most_frequent(summary.failed_attempts_by_kind)
        return f"retrying: {count} x {kind} ({TRAITS[kind].meaning})"
    return None


def _most_frequent(counts: dict[FailureKind, int]) -> tuple[FailureKind, int]:
    return max(counts.items(), key=lambda item: item[1])
