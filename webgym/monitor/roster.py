"""The states of all rollouts of a run, in a character and a number per rollout.

Only a rollout that waits or runs has its own record. A rollout that was never reported is not
here: it has not started. For one thread at a time.
"""

from collections import Counter, deque
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from rollgym.records import RolloutKey
from webgym.monitor.snapshot import BROWSER, OVERDUE_MARK, RETRY, TaskState

PRECISION = 0.05
"""The precision of the time at which an attempt ended, in seconds."""
_REPEAT_BITS = 24
_STATES = {ord(state.mark): state for state in TaskState}


class ProgressUpdate(NamedTuple):
    """The state of an episode since `time`, and how long it may last."""

    key: RolloutKey
    time: float
    state: TaskState
    phase: str
    step: int = 0
    within: float | None = None


class LiveRollout(msgspec.Struct):
    """A rollout that waits or runs.

    `began` is the start of its attempt, `running` that of its episode in a browser, `updated` the
    time of its last update.
    """

    key: RolloutKey
    began: float
    updated: float
    state: TaskState = TaskState.WAITING
    phase: str = BROWSER
    step: int = 0
    attempt: int = 1
    within: float | None = None
    running: float | None = None

    def overdue(self, now: float) -> bool:
        return self.within is not None and now - self.updated > self.within


class RolloutStates:
    """The state of each rollout. Cells number the rollouts in the order of their first report."""

    def __init__(self) -> None:
        self.live: dict[int, LiveRollout] = {}
        self.steps = 0
        self._cells: dict[int, int] = {}
        self._marks = bytearray()
        self._counts: Counter[TaskState] = Counter()

    def __len__(self) -> int:
        return len(self._marks)

    def count(self, state: TaskState) -> int:
        return self._counts[state]

    def ended(self) -> int:
        return sum(count for state, count in self._counts.items() if state.is_end)

    def start(self, key: RolloutKey, attempt: int, now: float) -> None:
        """The engine starts an attempt. Updates that its episode sent before are kept."""
        cell = self._cell(key)
        live = self.live.get(cell)
        if live is None or live.phase == RETRY:
            live = self._add_live(cell, LiveRollout(key, now, now))
        live.attempt = attempt

    def update(self, update: ProgressUpdate) -> None:
        """Apply an update of an episode. Updates of a rollout that has ended are ignored."""
        cell = self._cell(update.key)
        live = self.live.get(cell)
        if live is None:
            if self._state(cell).is_end:
                return
            live = self._add_live(cell, LiveRollout(update.key, update.time, update.time))
        if live.phase == RETRY:
            live.began, live.running, live.step = update.time, None, 0
            live.attempt += 1
        self.steps += max(0, update.step - live.step)
        live.updated, live.phase, live.step = update.time, update.phase, update.step
        live.within = update.within
        if update.state is not TaskState.RUNNING:
            live.running = None
        elif live.running is None:
            live.running = update.time
        if live.state is not update.state:
            live.state = update.state
            self._set(cell, update.state)

    def retry(self, key: RolloutKey, ended: float) -> None:
        """An attempt has ended and another one follows, unless that one has reported already."""
        cell = self._cell(key)
        live = self.live.get(cell)
        if live is None:
            live = self._add_live(cell, LiveRollout(key, ended, ended))
        elif live.updated > ended + PRECISION:
            return
        live.state, live.phase, live.step, live.within = TaskState.WAITING, RETRY, 0, None
        live.began = live.updated = ended
        live.running = None
        self._set(cell, TaskState.WAITING)

    def end(self, key: RolloutKey, state: TaskState) -> None:
        """The rollout has ended in this state."""
        cell = self._cell(key)
        self.live.pop(cell, None)
        self._set(cell, state)

    def marks(self, now: float) -> str:
        """A character for each reported rollout."""
        marks = bytearray(self._marks)
        for cell, live in self.live.items():
            if live.overdue(now):
                marks[cell] = ord(OVERDUE_MARK)
        return marks.decode("ascii")

    def rollouts(self) -> tuple[tuple[int, int], ...]:
        """The task and the repeat of each reported rollout, in the order of the cells."""
        repeat = (1 << _REPEAT_BITS) - 1
        return tuple([(packed >> _REPEAT_BITS, packed & repeat) for packed in self._cells])

    def most_urgent(self, now: float) -> Iterator[tuple[int, LiveRollout]]:
        """Waiting and running rollouts with their cells: overdue first, then the oldest running."""

        def urgency(item: tuple[int, LiveRollout]) -> tuple[bool, bool, float]:
            live = item[1]
            return not live.overdue(now), live.state is not TaskState.RUNNING, live.began

        return iter(sorted(self.live.items(), key=urgency))

    def _cell(self, key: RolloutKey) -> int:
        packed = key.task << _REPEAT_BITS | key.repeat
        cell = self._cells.get(packed)
        if cell is None:
            cell = self._cells[packed] = len(self._marks)
            self._marks.append(ord(TaskState.NOT_STARTED.mark))
            self._counts[TaskState.NOT_STARTED] += 1
        return cell

    def _state(self, cell: int) -> TaskState:
        return _STATES[self._marks[cell]]

    def _set(self, cell: int, state: TaskState) -> None:
        self._counts[self._state(cell)] -= 1
        self._counts[state] += 1
        self._marks[cell] = ord(state.mark)

    def _add_live(self, cell: int, live: LiveRollout) -> LiveRollout:
        self.live[cell] = live
        self._set(cell, live.state)
        return live


ENDS = 100


class EndRate:
    """The rate at which rollouts end, over the last hundred ends; it falls while none ends.

    Web rollouts take minutes, and between less than one and hundreds end in a minute. All times
    are of one monotonic clock.
    """

    def __init__(self, now: float) -> None:
        self._times: deque[float] = deque([now], maxlen=ENDS + 1)

    def add(self, now: float) -> None:
        """Count a rollout that ended."""
        self._times.append(now)

    def per_second(self, now: float) -> float | None:
        """None before the first end."""
        elapsed = now - self._times[0]
        ends = len(self._times) - 1
        return ends / elapsed if ends and elapsed > 0 else None
