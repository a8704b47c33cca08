"""The states of a rollout on the monitor, and the character that stands for each.

The characters differ, so that a board without colours can be read too. They are also those of
`MonitorSnapshot.cells`.
"""

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

import msgspec

from rollgym.store import Disk
from rollgym.store.disk import write_atomically

PHASES = ("navigate", "metadata", "screenshot", "tree", "model", "execute", "reward")
"""What a running rollout can be at, in the order of a step."""
BROWSER, RETRY = "browser", "retry"
"""What a waiting rollout waits for."""


class TaskState(StrEnum):
    """Where a rollout is.

    `WAITING` is for a browser or, between two attempts, for the next one. `SUCCESS`, `FAILURE` and
    `BLOCKED` are ends with a reward; `FAILED` has none. `EARLIER` are rollouts that ended before
    this collection, where nobody said how.
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
        """Its character."""
        return _MARKS[self]

    @property
    def words(self) -> str:
        return self.value.replace("_", " ")

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
OVERDUE_MARK = "?"
"""A rollout that waits or runs, and of which nothing was heard for longer than there should be."""
MARKS = OVERDUE_MARK + "!>wx#+-=."
"""All characters; of states that are equally frequent the one that comes first here is shown."""


SCHEMA_VERSION = 1
MOST_CELLS = 10_000
MOST_LIVE = 1_000


class SnapshotError(ValueError):
    """What was read is no snapshot, or one of a later schema."""


class LiveTask(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A rollout that waits or runs. `cell` is its index in `cells`.

    `phase` is the present one; of a waiting rollout `browser` or `retry`. `seconds` count from the
    begin of the attempt, `phase_seconds` from the last that was heard of it. `label` is there for
    the first few.
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

    `counts` add up to `expected`. `phases` counts what the running ones are at; `failures` counts
    attempts that failed, by kind, the last and the retried; `timeouts` are those of them whose time
    was up. `live` begins with the overdue, then those that run longest. `stopping` says why the
    run winds down. `missed` events never came, so the counts may be behind.
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
    def settled(self) -> int:
        """How many rollouts have ended."""
        return sum(count for state, count in self.counts.items() if state.is_end)

    @property
    def success_rate(self) -> float | None:
        """Of the rollouts that were judged and not blocked; None before the first."""
        success = self.counts.get(TaskState.SUCCESS, 0)
        judged = success + self.counts.get(TaskState.FAILURE, 0)
        return success / judged if judged else None

    def share(self, state: TaskState) -> float | None:
        """How much of what has ended came to this end."""
        settled = self.settled
        return self.counts.get(state, 0) / settled if settled and state.is_end else None


_DECODER = msgspec.json.Decoder(MonitorSnapshot)


def read_snapshot(data: bytes) -> MonitorSnapshot:
    """Raises SnapshotError."""
    try:
        snapshot = _DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SnapshotError(f"this is no snapshot of a monitor: {error}") from error
    if snapshot.v > SCHEMA_VERSION:
        raise SnapshotError(
            f"the snapshot has schema version {snapshot.v}, this program reads up to "
            f"{SCHEMA_VERSION}: upgrade rollgym to read it"
        )
    return snapshot


def merged_cells(cells: str, size: int) -> str:
    """One character for each `size` cells: that of most of them."""
    if size <= 1:
        return cells
    return "".join(_most(cells[start : start + size]) for start in range(0, len(cells), size))


def most_frequent(counts: Mapping[str, int]) -> tuple[str, int] | None:
    """The name with the highest count; None where nothing was counted."""
    return max(counts.items(), key=lambda item: item[1], default=None)


def _most(part: str) -> str:
    # Nearly all parts are of one state.
    return part[0] if part.count(part[0]) * 2 > len(part) else max(MARKS, key=part.count)


LARGEST_FILE = 1 << 24


class _Hasty(Disk):
    """Does not wait for the device."""

    def sync(self, descriptor: int) -> None:
        """Nothing."""


def write_snapshot(path: Path, snapshot: MonitorSnapshot) -> None:
    """Replace the file. Raises OSError."""
    disk = Disk() if snapshot.finished else _Hasty()
    write_atomically(disk, path, msgspec.json.encode(snapshot))


class SnapshotFile:
    """The latest snapshot in a file that another process may be writing."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def snapshot(self) -> MonitorSnapshot | None:
        """None where there is no file yet. Raises SnapshotError, OSError."""
        try:
            with self._path.open("rb") as file:
                data = file.read(LARGEST_FILE + 1)
        except FileNotFoundError:
            return None
        if len(data) > LARGEST_FILE:
            raise SnapshotError(f"{self._path} has more than {LARGEST_FILE} bytes: no snapshot")
        return read_snapshot(data)
