"""A snapshot of a run: the state of every rollout at one moment, which displays draw.

*States.* Each state has a character, so that a board without colours can be read too. The same
characters are in `MonitorSnapshot.cells`.

*Schema.* `v` is the version of the schema. A reader must ignore fields that it does not know; a
change in the meaning of a known field raises the version. `cells` has one character per rollout, in
the order in which they were first seen, or one per `rollouts_per_cell` rollouts where a run has
more than `MOST_CELLS`: the most frequent state. `rollouts` has the task and repeat of the first
cells. It is empty where a cell stands for several rollouts, and does not cover rollouts that this
process has not seen. The size is bounded by `MOST_CELLS` characters and `MOST_LIVE` live rollouts.

*File.* Viewers read the snapshot as JSON. The file is replaced as a whole, so readers never see
half of it. It is synced to the disk only at the end of the run.
"""

from enum import StrEnum
from pathlib import Path

import msgspec

from rollgym.store import Disk
from rollgym.store.disk import write_atomically

PHASES = ("navigate", "metadata", "screenshot", "tree", "model", "execute", "reward")
"""The phases of a running rollout, in the order of a step."""
BROWSER, RETRY = "browser", "retry"
"""The phases of a waiting rollout: it waits for a browser, or for its next attempt."""


class TaskState(StrEnum):
    """The state of a rollout.

    A `WAITING` rollout waits for a browser or, between two attempts, for the next one. `SUCCESS`,
    `FAILURE` (no success) and `BLOCKED` ended with a reward, `FAILED` without one. `EARLIER`
    rollouts ended before this process started, in an unknown state.
    """

    NOT_STARTED = "not_started"
    WAITING = "waiting"
    RUNNING = "running"
    SUCCESS = "success"
    FAILURE = "failure"
    BLOCKED = "blocked"
    FAILED = "failed"
    OMITTED = "omitted"
    EARLIER = "earlier"

    @property
    def mark(self) -> str:
        """The character of this state."""
        return _MARKS[self]

    @property
    def words(self) -> str:
        """The state in words: a verdict without success differs from a failed rollout."""
        return _WORDS.get(self, self.value.replace("_", " "))

    @property
    def is_end(self) -> bool:
        return self not in _OPEN


_OPEN = frozenset((TaskState.NOT_STARTED, TaskState.WAITING, TaskState.RUNNING))
_MARKS = {
    TaskState.NOT_STARTED: ".",
    TaskState.WAITING: "w",
    TaskState.RUNNING: ">",
    TaskState.SUCCESS: "+",
    TaskState.FAILURE: "x",
    TaskState.BLOCKED: "#",
    TaskState.FAILED: "!",
    TaskState.OMITTED: "-",
    TaskState.EARLIER: "=",
}
_WORDS = {TaskState.FAILURE: "no success"}
OVERDUE_MARK = "?"
"""A rollout that waits or runs without an update for longer than expected."""
MARKS = OVERDUE_MARK + "!>wx#+-=."
"""All characters; of equally frequent states the first one here is shown."""


SCHEMA_VERSION = 1
MOST_CELLS = 10_000
MOST_LIVE = 1_000


class LiveTask(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A rollout that waits or runs. `cell` is its index in `cells`.

    `phase` is the current one; of a waiting rollout `browser` or `retry`. `seconds` count from the
    start of the attempt, `phase_seconds` from its last update. Only the first few have a `label`.
    """

    cell: int
    task: int
    repeat: int
    state: TaskState
    phase: str
    step: int = 0
    attempt: int = 1
    seconds: float = 0.0
    phase_seconds: float = 0.0
    overdue: bool = False
    label: str = ""


class MonitorSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a run. `time` is wall-clock time since the epoch.

    `counts` sum to `expected`. `phases` counts running rollouts by phase; `failures` counts failed
    attempts by kind, including retried ones; `timeouts` are those that ran out of time. `live` has
    overdue rollouts first, then those that run longest. `stopping` says why the run stops or waits.
    `missed` events were dropped, so the counts may lag.
    """

    v: int = SCHEMA_VERSION
    title: str = ""
    time: float = 0.0
    elapsed: float = 0.0
    finished: bool = False
    expected: int = 0
    resumed: int = 0
    counts: dict[TaskState, int] = {}
    phases: dict[str, int] = {}
    failures: dict[str, int] = {}
    retried: int = 0
    timeouts: int = 0
    overdue: int = 0
    in_flight_limit: int = 0
    steps: int = 0
    rollouts_per_minute: float | None = None
    remaining_seconds: float | None = None
    stopping: str | None = None
    missed: int = 0
    cells: str = ""
    rollouts_per_cell: int = 1
    rollouts: tuple[tuple[int, int], ...] = ()
    live: tuple[LiveTask, ...] = ()

    @property
    def ended(self) -> int:
        """The number of rollouts that have ended."""
        return sum(count for state, count in self.counts.items() if state.is_end)

    @property
    def success_rate(self) -> float | None:
        """The share of successes in scored, unblocked rollouts; None before the first."""
        success = self.counts.get(TaskState.SUCCESS, 0)
        judged = success + self.counts.get(TaskState.FAILURE, 0)
        return success / judged if judged else None

    def share(self, state: TaskState) -> float | None:
        """The share of this state in the rollouts that have ended."""
        ended = self.ended
        return self.counts.get(state, 0) / ended if ended and state.is_end else None


def merged_cells(cells: str, size: int) -> str:
    """One character for each `size` cells: the most frequent one."""
    if size <= 1:
        return cells
    return "".join(_most(cells[start : start + size]) for start in range(0, len(cells), size))


def _most(part: str) -> str:
    # Nearly all parts have a single state.
    return part[0] if part.count(part[0]) * 2 > len(part) else max(MARKS, key=part.count)


class _UnsyncedDisk(Disk):
    """Does not wait for the device."""

    def sync(self, descriptor: int) -> None:
        """Do nothing."""


def write_snapshot(path: Path, snapshot: MonitorSnapshot) -> None:
    """Replace the file. Raises OSError."""
    disk = Disk() if snapshot.finished else _UnsyncedDisk()
    write_atomically(disk, path, msgspec.json.encode(snapshot))
