"""One moment of a run: what every display draws from, and the JSON that viewers read.

*Schema.* `v` is the version of the schema. A reader must ignore fields that it does not know; what
changes the meaning of a known field raises the version. `cells` has one character per rollout, in
the order in which they were first seen (see `webgym.monitor.states`), or one per
`rollouts_per_cell` of them where a run has more than `MOST_CELLS`: the state of most. `rollouts`
says which the first cells are of, as pairs of task and repeat. It is empty where a cell is of
several, and does not reach cells of rollouts that were not seen by this process.

*Size.* It is bounded: by `MOST_CELLS` characters and `MOST_LIVE` live rollouts.
"""

from collections.abc import Mapping

import msgspec

from webgym.monitor.states import MARKS, TaskState

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
