"""The rollouts of a run, each with its state: a character and a number per rollout, no more.

Only a rollout that waits or runs has a record of its own. One that nobody has named yet is not here
at all: it has not started. Nothing in here is safe to use from two threads.
"""

from collections import Counter, deque
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from rollgym.records import RolloutKey
from webgym.monitor.snapshot import BROWSER, OVERDUE_MARK, RETRY, TaskState

PRECISION = 0.05
"""How well the time of an attempt's end is known, in seconds."""
_REPEAT_BITS = 24
_STATES = {ord(state.mark): state for state in TaskState}


class Update(NamedTuple):
    """What an episode says: where it is since `time`, and how long that may take."""

    key: RolloutKey
    time: float
    state: TaskState
    phase: str
    step: int = 0
    within: float | None = None


class LiveRollout(msgspec.Struct):
    """A rollout that waits or runs.

    `began` is when its attempt did, `updated` when something was heard of it last.
    """

    key: RolloutKey
    began: float
    updated: float
    state: TaskState = TaskState.WAITING
    phase: str = BROWSER
    step: int = 0
    attempt: int = 1
    within: float | None = None

    def overdue(self, now: float) -> bool:
        return self.within is not None and now - self.updated > self.within


class Roster:
    """Who is where. Slots number the rollouts in the order in which they were first named."""

    def __init__(self) -> None:
        self.live: dict[int, LiveRollout] = {}
        self.steps = 0
        self._slots: dict[int, int] = {}
        self._marks = bytearray()
        self._counts: Counter[TaskState] = Counter()

    def __len__(self) -> int:
        return len(self._marks)

    def count(self, state: TaskState) -> int:
        return self._counts[state]

    def ended(self) -> int:
        return sum(count for state, count in self._counts.items() if state.is_end)

    def start(self, key: RolloutKey, attempt: int, now: float) -> None:
        """The engine starts an attempt. What its episode has said meanwhile stays."""
        slot = self._slot(key)
        live = self.live.get(slot)
        if live is None or live.phase == RETRY:
            live = self._enliven(slot, LiveRollout(key, now, now))
        live.attempt = attempt

    def update(self, said: Update) -> None:
        """What an episode says. Of a rollout that has ended it counts for nothing."""
        slot = self._slot(said.key)
        live = self.live.get(slot)
        if live is None:
            if self._state(slot).is_end:
                return
            live = self._enliven(slot, LiveRollout(said.key, said.time, said.time))
        if live.phase == RETRY:
            live.began, live.step = said.time, 0
            live.attempt += 1
        self.steps += max(0, said.step - live.step)
        live.updated, live.phase, live.step = said.time, said.phase, said.step
        live.within = said.within
        if live.state is not said.state:
            live.state = said.state
            self._set(slot, said.state)

    def retry(self, key: RolloutKey, ended: float) -> None:
        """An attempt has ended, and there will be another, unless it is heard of already."""
        slot = self._slot(key)
        live = self.live.get(slot)
        if live is None:
            live = self._enliven(slot, LiveRollout(key, ended, ended))
        elif live.updated > ended + PRECISION:
            return
        live.state, live.phase, live.step, live.within = TaskState.WAITING, RETRY, 0, None
        live.began = live.updated = ended
        self._set(slot, TaskState.WAITING)

    def settle(self, key: RolloutKey, state: TaskState) -> None:
        """It has come to an end."""
        slot = self._slot(key)
        self.live.pop(slot, None)
        self._set(slot, state)

    def marks(self, now: float) -> str:
        """A character for each rollout that was named."""
        marks = bytearray(self._marks)
        for slot, live in self.live.items():
            if live.overdue(now):
                marks[slot] = ord(OVERDUE_MARK)
        return marks.decode("ascii")

    def rollouts(self) -> tuple[tuple[int, int], ...]:
        """The task and the repeat of each rollout that was named, in the order of the slots."""
        repeat = (1 << _REPEAT_BITS) - 1
        return tuple([(packed >> _REPEAT_BITS, packed & repeat) for packed in self._slots])

    def most_urgent(self, now: float) -> Iterator[tuple[int, LiveRollout]]:
        """Those that wait or run, with their slots: overdue first, then running, oldest first."""

        def urgency(item: tuple[int, LiveRollout]) -> tuple[bool, bool, float]:
            live = item[1]
            return not live.overdue(now), live.state is not TaskState.RUNNING, live.began

        return iter(sorted(self.live.items(), key=urgency))

    def _slot(self, key: RolloutKey) -> int:
        packed = key.task << _REPEAT_BITS | key.repeat
        slot = self._slots.get(packed)
        if slot is None:
            slot = self._slots[packed] = len(self._marks)
            self._marks.append(ord(TaskState.NOT_STARTED.mark))
            self._counts[TaskState.NOT_STARTED] += 1
        return slot

    def _state(self, slot: int) -> TaskState:
        return _STATES[self._marks[slot]]

    def _set(self, slot: int, state: TaskState) -> None:
        self._counts[self._state(slot)] -= 1
        self._counts[state] += 1
        self._marks[slot] = ord(state.mark)

    def _enliven(self, slot: int, live: LiveRollout) -> LiveRollout:
        self.live[slot] = live
        self._set(slot, live.state)
        return live


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
