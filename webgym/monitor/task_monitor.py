"""Where every rollout of a run stands: not started, waiting, running, or how it ended.

*Two sources.* Episodes say what they are at (`waiting`, `running`), from the event loop; that only
appends to a bounded queue, so it takes no time and no lock. How rollouts end comes from the engine,
to which the monitor is an observer. Both are put together by whoever asks for a `snapshot`, in
another thread.

*Order.* The engine's events come a little late. What an episode says after an attempt's end is
therefore told by its time from what it said before: a late record of a first attempt does not stop
the second one on the board. A rollout that has ended stays so until the engine starts it again.

*Memory.* A rollout of the run takes some 110 bytes (its number, its cell, one character); only
those that wait or run take more.

*Showing it* is the business of `webgym.monitor`: a board on a terminal, lines elsewhere, a JSON
file beside the results, and server-sent events.
"""

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import TextIO

import msgspec

from rollgym.engine import (
    AttemptRecorded,
    AttemptStarted,
    CollectionEnded,
    CollectionStarted,
    Event,
    StopRequested,
)
from rollgym.monitor import printable_line
from rollgym.records import (
    Attempt,
    Completed,
    Failed,
    FailureKind,
    Outcome,
    RecordState,
    RolloutKey,
)
from webgym.monitor.display import LINE_INTERVAL, Display, choose_screen
from webgym.monitor.roster import LiveRollout, Roster, Throughput, Update
from webgym.monitor.snapshot import (
    BROWSER,
    MOST_CELLS,
    MOST_LIVE,
    LiveTask,
    MonitorSnapshot,
    TaskState,
    merged_cells,
)

OVERDUE_AFTER = 300.0
BLOCKED_MEASURE = "blocked"
"""The measure of a completed rollout that is above 0 where the site blocked the agent."""
UPDATES = 100_000
LABELLED = 32

Label = Callable[[RolloutKey], str]
log = logging.getLogger(__name__)


def _no_label(_: RolloutKey) -> str:
    return ""


class TaskMonitor:
    """Watches a run and shows it on `stream`: None shows nothing. Use it as a context manager.

    Give it to `collect` as an observer, and its `replay` to `open_run`, so that a resumed run
    shows what it found. `label` is a short text for a rollout; it is asked from the monitor's
    thread, once for each that is shown. `file` gets the present snapshot, at most once a second. A
    running rollout of which nothing is heard for `overdue_after` seconds is overdue, unless it
    said itself how long it may take.
    """

    name = "monitor"

    def __init__(
        self,
        stream: TextIO | None = None,
        *,
        title: str = "",
        label: Label = _no_label,
        file: Path | None = None,
        overdue_after: float = OVERDUE_AFTER,
        line_interval: float = LINE_INTERVAL,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._title = printable_line(title)
        self._label = label
        self._labels: dict[RolloutKey, str] = {}
        self._overdue_after = overdue_after
        self._clock, self._wall_clock = clock, wall_clock
        self._updates: deque[Update] = deque(maxlen=UPDATES)
        self._lock = threading.Lock()
        self._roster = Roster()
        self._failures: Counter[str] = Counter()
        self._began = clock()
        self._ended: float | None = None
        self._throughput = Throughput(self._began)
        self._expected = self._resumed = self._earlier = self._limit = 0
        self._retried = self._missed = 0
        self._stopping: str | None = None
        self._display = Display(self.snapshot, choose_screen(stream, line_interval), file)

    def __enter__(self) -> "TaskMonitor":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Show the last moment and give the terminal back. Safe to call again."""
        self._display.stop()

    def waiting(self, key: RolloutKey, *, within: float | None = None) -> None:
        """It waits for a browser; longer than `within` seconds is overdue."""
        self._updates.append(Update(key, self._clock(), TaskState.WAITING, BROWSER, within=within))

    def running(
        self, key: RolloutKey, phase: str, step: int = 0, *, within: float | None = None
    ) -> None:
        """It is at this phase of this step, which should take at most `within` seconds."""
        longest = self._overdue_after if within is None else within
        self._updates.append(Update(key, self._clock(), TaskState.RUNNING, phase, step, longest))

    def replay(self, attempt: Attempt, state: RecordState) -> None:
        """Take in a record that is on disk already; to be given to `open_run`."""
        if attempt.final and state is not RecordState.SUPERSEDED:
            with self._lock:
                self._roster.settle(attempt.key, _end(attempt.outcome))

    def observe(self, events: Sequence[Event]) -> None:
        """Take in a batch of events."""
        with self._lock:
            self._catch_up()
            for event in events:
                self._take_in(event)
        if any(isinstance(event, CollectionStarted) for event in events):
            self._display.start()
        if self._ended is not None:
            self._display.stop()
        elif any(isinstance(event, StopRequested) for event in events):
            self._display.nudge()

    def snapshot(self) -> MonitorSnapshot:
        """The present moment; after the end, the last one."""
        with self._lock:
            self._catch_up()
            snapshot = self._snapshot()
        # Outside the lock, because nobody knows how long a label takes.
        named = {RolloutKey(task.task, task.repeat): task for task in snapshot.live[:LABELLED]}
        labels = {key: self._labels.get(key) or self._label_of(key) for key in named}
        self._labels = labels
        first = [msgspec.structs.replace(task, label=labels[key]) for key, task in named.items()]
        return msgspec.structs.replace(snapshot, live=(*first, *snapshot.live[LABELLED:]))

    def _label_of(self, key: RolloutKey) -> str:
        try:
            return printable_line(self._label(key))
        except Exception as error:  # noqa: BLE001 - it may be anything, and no run depends on it
            log.warning("there is no label for %s, and no more are asked for: %r", key, error)
            self._label = _no_label
            return ""

    def _snapshot(self) -> MonitorSnapshot:
        roster, now = self._roster, self._clock() if self._ended is None else self._ended
        counts = self._counts()
        expected = sum(counts.values())
        left = sum(count for state, count in counts.items() if not state.is_end)
        per_cell = max(1, -(-expected // MOST_CELLS))
        rate = self._throughput.per_second(now)
        return MonitorSnapshot(
            title=self._title,
            time=self._wall_clock(),
            elapsed=now - self._began,
            finished=self._ended is not None,
            expected=expected,
            resumed=self._resumed,
            counts=counts,
            phases=dict(
                Counter(
                    task.phase for task in roster.live.values() if task.state is TaskState.RUNNING
                )
            ),
            failures=dict(self._failures),
            retried=self._retried,
            timeouts=self._failures[FailureKind.TIMEOUT],
            overdue=sum(task.overdue(now) for task in roster.live.values()),
            in_flight_limit=self._limit,
            steps=roster.steps,
            rollouts_per_minute=None if rate is None else 60 * rate,
            remaining_seconds=0.0 if not left else left / rate if rate else None,
            stopping=self._stopping,
            missed=self._missed,
            cells=merged_cells(self._cells(counts, now), per_cell),
            rollouts_per_cell=per_cell,
            rollouts=roster.rollouts() if per_cell == 1 else (),
            live=tuple(
                _shown(task, slot // per_cell, now)
                for slot, task in islice(roster.most_urgent(now), MOST_LIVE)
            ),
        )

    def _counts(self) -> dict[TaskState, int]:
        """Of all rollouts, also of those that nobody has named yet; they add up."""
        roster = self._roster
        counts = {state: roster.count(state) for state in TaskState}
        unnamed = max(0, self._expected - len(roster))
        counts[TaskState.EARLIER] = min(self._earlier, unnamed)
        counts[TaskState.NOT_STARTED] += unnamed - counts[TaskState.EARLIER]
        return counts

    def _cells(self, counts: dict[TaskState, int], now: float) -> str:
        earlier = TaskState.EARLIER.mark * counts[TaskState.EARLIER]
        named = self._roster.marks(now)
        return (named + earlier).ljust(sum(counts.values()), TaskState.NOT_STARTED.mark)

    def _catch_up(self) -> None:
        """Take in what episodes said until now."""
        updates, roster = self._updates, self._roster
        for _ in range(len(updates)):
            roster.update(updates.popleft())

    def _take_in(self, event: Event) -> None:
        match event:
            case CollectionStarted():
                self._expected = event.expected
                self._resumed = event.resumed
                self._earlier = max(0, event.resumed - self._roster.ended())
                self._began = self._clock()
                self._throughput = Throughput(self._began)
            case AttemptStarted():
                self._limit = event.limit
                self._roster.start(event.key, event.attempt, self._clock())
            case AttemptRecorded():
                self._record(event.attempt)
            case StopRequested():
                self._stopping = printable_line(event.reason)
            case CollectionEnded():
                self._missed = event.coverage.dropped_events.get(self.name, 0)
                self._ended = self._clock()

    def _record(self, attempt: Attempt) -> None:
        outcome, now = attempt.outcome, self._clock()
        if isinstance(outcome, Failed):
            self._failures[outcome.failure.kind] += 1
        if attempt.final:
            self._roster.settle(attempt.key, _end(outcome))
            self._throughput.add(now)
        else:
            self._retried += 1
            age = self._wall_clock() - (attempt.started + attempt.seconds)
            self._roster.retry(attempt.key, now - max(0.0, age))


def _end(outcome: Outcome) -> TaskState:
    match outcome:
        case Completed(measures=measures) if measures.get(BLOCKED_MEASURE, 0.0) > 0:
            return TaskState.BLOCKED
        case Completed():
            return TaskState.SUCCESS if outcome.succeeded else TaskState.FAILURE
        case Failed():
            return TaskState.FAILED
        case _:
            return TaskState.OMITTED


def _shown(task: LiveRollout, cell: int, now: float) -> LiveTask:
    return LiveTask(
        cell=cell,
        task=task.key.task,
        repeat=task.key.repeat,
        state=task.state,
        phase=task.phase,
        step=task.step,
        attempt=task.attempt,
        seconds=now - task.began,
        phase_seconds=now - task.updated,
        overdue=task.overdue(now),
    )
