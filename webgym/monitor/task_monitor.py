"""The task monitor: the state of every rollout of a run.

*Two sources.* Episodes report their progress (`waiting`, `running`) from the event loop; a report
only appends to a bounded queue, so it takes no time and no lock. The engine, which the monitor
observes, reports how rollouts end. `snapshot` combines both, in another thread.

*Order.* The engine's events arrive a little late. The time of a report tells whether an episode
sent it before or after the end of an attempt, so a late record of a first attempt does not hide the
second one. A rollout that has ended stays so until the engine starts it again.

*Memory.* A rollout takes about 110 bytes (its number, its cell, one character); only waiting and
running ones take more.

*Display.* A board on a terminal, lines elsewhere, and a JSON file beside the results, which the
viewer serves as server-sent events.
"""

import logging
import math
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import TextIO

import msgspec

from rollgym.closing import Closable
from rollgym.engine import (
    AttemptRecorded,
    AttemptStarted,
    AttemptTimeouts,
    CollectionEnded,
    CollectionStarted,
    Event,
    Held,
    RolloutsReopened,
    StopRequested,
)
from rollgym.monitor import held_line, printable_line
from rollgym.monitor.screen import LINE_INTERVAL
from rollgym.records import (
    Attempt,
    Completed,
    Failed,
    FailureKind,
    Outcome,
    RecordState,
    RolloutKey,
)
from webgym.monitor.display import Display, choose_screen
from webgym.monitor.roster import EndRate, LiveRollout, ProgressUpdate, RolloutStates
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


class TaskMonitor(Closable):
    """Monitors a run and shows it on `stream`; None shows nothing. Use it as a context manager.

    Give it to `collect` as an observer, and its `replay` to `open_run`, so that a resumed run
    shows its earlier rollouts. `label` returns a short text for a rollout; the monitor's thread
    calls it once for each rollout on display. `file` gets the current snapshot, at most once a
    second. A running rollout without an update for `overdue_after` seconds is overdue, unless its
    update gave another bound. An attempt that has run for `timeout_after` seconds since it got its
    browser is ended as a timeout by the engine: give `timeouts` to `collect`.
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
        timeout_after: float | None = None,
        line_interval: float = LINE_INTERVAL,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._title = printable_line(title)
        self._label = label
        self._labels: dict[RolloutKey, str] = {}
        self.timeouts = AttemptTimeouts()
        self._overdue_after = overdue_after
        self._timeout_after = math.inf if timeout_after is None else timeout_after
        self._clock, self._wall_clock = clock, wall_clock
        self._updates: deque[ProgressUpdate] = deque(maxlen=UPDATES)
        self._lock = threading.Lock()
        self._rollouts = RolloutStates()
        self._failures: Counter[str] = Counter()
        self._began = clock()
        self._ended: float | None = None
        self._end_rate = EndRate(self._began)
        self._expected = self._resumed = self._earlier = self._limit = 0
        self._retried = self._missed = 0
        self._stopping: str | None = None
        self._held: str | None = None
        screen = choose_screen(stream, line_interval)
        watches = timeout_after is not None
        self._display = Display(self.snapshot, screen, file, watches=watches)

    def close(self) -> None:
        """Show the last snapshot and release the terminal. Safe to call again."""
        self._display.stop()

    def waiting(self, key: RolloutKey, *, within: float | None = None) -> None:
        """The rollout waits for a browser; longer than `within` seconds is overdue."""
        self._updates.append(
            ProgressUpdate(key, self._clock(), TaskState.WAITING, BROWSER, within=within)
        )

    def running(
        self, key: RolloutKey, phase: str, step: int = 0, *, within: float | None = None
    ) -> None:
        """The rollout is in this phase of this step, which should take at most `within` seconds."""
        longest = self._overdue_after if within is None else within
        self._updates.append(
            ProgressUpdate(key, self._clock(), TaskState.RUNNING, phase, step, longest)
        )

    def replay(self, attempt: Attempt, state: RecordState) -> None:
        """Apply a record that is on disk already; for `open_run`."""
        if attempt.final and state is not RecordState.SUPERSEDED:
            with self._lock:
                self._rollouts.end(attempt.key, _end(attempt.outcome))

    def observe(self, events: Sequence[Event]) -> None:
        """Handle a batch of events."""
        with self._lock:
            self._catch_up()
            for event in events:
                self._handle(event)
        if any(isinstance(event, CollectionStarted) for event in events):
            self._display.start()
        if self._ended is not None:
            self._display.stop()
        elif any(isinstance(event, StopRequested | Held) for event in events):
            self._display.redraw()

    def snapshot(self) -> MonitorSnapshot:
        """The current snapshot; after the end, the last one."""
        with self._lock:
            self._catch_up()
            snapshot = self._snapshot()
        # Outside the lock, because a label may take long.
        named = {RolloutKey(task.task, task.repeat): task for task in snapshot.live[:LABELLED]}
        labels = {key: self._labels.get(key) or self._label_of(key) for key in named}
        self._labels = labels
        first = [msgspec.structs.replace(task, label=labels[key]) for key, task in named.items()]
        return msgspec.structs.replace(snapshot, live=(*first, *snapshot.live[LABELLED:]))

    def _label_of(self, key: RolloutKey) -> str:
        try:
            return printable_line(self._label(key))
        except Exception as error:  # noqa: BLE001 - the run does not depend on labels
            log.warning("the label of %s failed, and labels are not used any more: %r", key, error)
            self._label = _no_label
            return ""

    def _snapshot(self) -> MonitorSnapshot:
        rollouts, now = self._rollouts, self._clock() if self._ended is None else self._ended
        counts = self._counts()
        expected = sum(counts.values())
        left = sum(count for state, count in counts.items() if not state.is_end)
        per_cell = max(1, -(-expected // MOST_CELLS))
        rate = self._end_rate.per_second(now)
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
                    task.phase for task in rollouts.live.values() if task.state is TaskState.RUNNING
                )
            ),
            failures=dict(self._failures),
            retried=self._retried,
            timeouts=self._failures[FailureKind.TIMEOUT],
            overdue=sum(task.overdue(now) for task in rollouts.live.values()),
            in_flight_limit=self._limit,
            steps=rollouts.steps,
            rollouts_per_minute=None if rate is None else 60 * rate,
            remaining_seconds=0.0 if not left else left / rate if rate else None,
            stopping=self._stopping or self._held,
            missed=self._missed,
            cells=merged_cells(self._cells(counts, now), per_cell),
            rollouts_per_cell=per_cell,
            rollouts=rollouts.rollouts() if per_cell == 1 else (),
            live=tuple(
                _live_task(task, cell // per_cell, now)
                for cell, task in islice(rollouts.most_urgent(now), MOST_LIVE)
            ),
        )

    def _counts(self) -> dict[TaskState, int]:
        """The number of rollouts in each state, including those that were not reported yet."""
        rollouts = self._rollouts
        counts = {state: rollouts.count(state) for state in TaskState}
        unreported = max(0, self._expected - len(rollouts))
        counts[TaskState.EARLIER] = min(self._earlier, unreported)
        counts[TaskState.NOT_STARTED] += unreported - counts[TaskState.EARLIER]
        return counts

    def _cells(self, counts: dict[TaskState, int], now: float) -> str:
        earlier = TaskState.EARLIER.mark * counts[TaskState.EARLIER]
        reported = self._rollouts.marks(now)
        return (reported + earlier).ljust(sum(counts.values()), TaskState.NOT_STARTED.mark)

    def _catch_up(self) -> None:
        """Apply the reports of episodes until now, and report attempts that take too long."""
        updates, rollouts = self._updates, self._rollouts
        for _ in range(len(updates)):
            rollouts.update(updates.popleft())
        since = self._clock() - self._timeout_after
        for live in rollouts.live.values():
            if live.running is not None and live.running < since:
                self.timeouts.request(live.key, live.attempt)

    def _handle(self, event: Event) -> None:
        match event:
            case CollectionStarted():
                self._expected = event.expected
                self._resumed = event.resumed
                self._earlier = max(0, event.resumed - self._rollouts.ended())
                self._began = self._clock()
                self._end_rate = EndRate(self._began)
            case AttemptStarted():
                self._limit = event.limit
                self._rollouts.start(event.key, event.attempt, self._clock())
            case AttemptRecorded():
                self._record(event.attempt)
            case StopRequested():
                self._stopping = printable_line(event.reason)
            case Held(reasons=reasons):
                self._held = held_line(reasons)
            case RolloutsReopened():
                pass  # they show again when they start
            case CollectionEnded():
                self._missed = event.coverage.dropped_events.get(self.name, 0)
                self._ended = self._clock()

    def _record(self, attempt: Attempt) -> None:
        outcome, now = attempt.outcome, self._clock()
        if isinstance(outcome, Failed):
            self._failures[outcome.failure.kind] += 1
        if attempt.final:
            self._rollouts.end(attempt.key, _end(outcome))
            self._end_rate.add(now)
        else:
            self._retried += 1
            age = self._wall_clock() - (attempt.started + attempt.seconds)
            self._rollouts.retry(attempt.key, now - max(0.0, age))


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


def _live_task(task: LiveRollout, cell: int, now: float) -> LiveTask:
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
