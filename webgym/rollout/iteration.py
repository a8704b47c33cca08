"""The iterations of a folder: their files and metrics.

*Which iteration.* Without a number, a command continues the last started iteration until it is
finished: completed by one process, or by several ranks and aggregated. Then it starts the next one.
Ranks that start together choose the same number, because the files of the first one belong to an
unfinished iteration. A retry of failed or omitted rollouts means the last iteration.

*The metrics file* has coverage and metrics. Each rank writes one at its checkpoints and at its end.
`final` says that the rank is done and that all its trajectories are in their file, which is written
first.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from rollgym.records.decoding import JsonDecoder
from rollgym.store import OpenAdvice, StoreError, write_derived
from rollgym.store.errors import storage_error
from webgym.tasks.task import Split
from webgym.trajectory.metrics import RolloutMetrics, TaskGroupCounts

_ITERATION_FILE = re.compile(
    r"(?:\w+_trajectories\.pt\.iteration(\d+)(?:\D.*)?"
    r"|(?:metrics\.|monitor\.)?iteration(\d+)(?:\D.*)?\.(?:run|json|jsonl))"
)
ITERATION_ADVICE = OpenAdvice(
    another_run="choose another iteration=… or another save_path=…",
    sharing="Several processes can share an iteration as ranks: give each its RANK, and all the "
    "same WORLD_SIZE.",
)
"""The advice where the run of an iteration cannot be opened."""


class IterationPaths(msgspec.Struct, frozen=True):
    """The paths of one iteration. `suffix` is that of a rank, empty for shared files."""

    save_path: Path
    split: Split
    iteration: int
    suffix: str = ""

    def of_rank(self, index: int, count: int) -> "IterationPaths":
        """The paths of one of `count` ranks, if it has no suffix of its own."""
        return self.with_suffix(rank_suffix(index, count))

    def with_suffix(self, suffix: str) -> "IterationPaths":
        """The paths of the rank whose files have this suffix."""
        return msgspec.structs.replace(self, suffix=suffix)

    def announcement(self, rank: int) -> Path:
        """What a rank says of itself to the others; see `webgym.rollout.ranks`."""
        return self.folder / f"iteration{self.iteration}.rank_{rank}.json"

    @property
    def folder(self) -> Path:
        return self.save_path / f"{self.split}_trajectories"

    @property
    def trajectories(self) -> Path:
        """The `.pt` file."""
        return self.folder / f"{self.split}_trajectories.pt.{self._name}"

    @property
    def run(self) -> Path:
        """The run directory of the store."""
        return self.folder / f"{self._name}.run"

    @property
    def metrics(self) -> Path:
        return self.folder / f"metrics.{self._name}.json"

    @property
    def monitor(self) -> Path:
        return self.folder / f"monitor.{self._name}.json"

    @property
    def sample(self) -> Path:
        """The tasks of all ranks."""
        return self.folder / f"iteration{self.iteration}.sample.jsonl"

    @property
    def screenshots(self) -> Path:
        """The screenshots of all iterations and ranks."""
        return self.save_path / "screenshots"

    @property
    def blocklist(self) -> Path:
        return self.save_path / "blocklist.jsonl"

    @property
    def _name(self) -> str:
        return f"iteration{self.iteration}{self.suffix}"


def rank_suffix(index: int, count: int) -> str:
    """The usual suffix of the files of a rank."""
    return "" if count == 1 else f"_rank_{index}"


def find_iteration(save_path: Path, split: Split, suffix: str = "") -> int:
    """The last iteration if it is not finished, else the next; 0 where there is none.

    `suffix` is that of a single rank. Raises StorageError.
    """
    last = last_iteration(save_path, split)
    if last is None:
        return 0
    return last + 1 if is_finished(IterationPaths(save_path, split, last, suffix)) else last


def last_iteration(save_path: Path, split: Split) -> int | None:
    """The last started iteration; None where there is none. Raises StorageError."""
    return max(_started(IterationPaths(save_path, split, 0).folder), default=None)


def is_finished(paths: IterationPaths) -> bool:
    """Whether the metrics at these paths are final. Raises StorageError."""
    try:
        report = read_report(paths.metrics)
    except ReportError:
        return False
    return report is not None and report.final


def _started(folder: Path) -> Iterator[int]:
    try:
        for path in folder.iterdir():
            if found := _ITERATION_FILE.fullmatch(path.name):
                yield int(found[1] or found[2])
    except FileNotFoundError:
        return
    except OSError as error:
        raise storage_error(error, folder, "looking for iterations") from error


class ReportError(StoreError):
    """A metrics file is damaged."""


class IterationCoverage(msgspec.Struct, frozen=True, kw_only=True):
    """The outcomes of `expected` rollouts."""

    expected: int
    completed: int
    failed: int
    omitted: int
    unresolved: int


class IterationLabels(msgspec.Struct, frozen=True, kw_only=True):
    """Names an iteration, and the rank that reports."""

    split: str
    iteration: int
    rank: int = 0
    world_size: int = 1


class IterationReport(IterationLabels, frozen=True, kw_only=True):
    """The metrics file. `trajectories` is the name of the `.pt` file.

    `missing_ranks` are ranks that are not included in an aggregated file. `groups` counts the
    groups of an iteration with several rollouts of each task.
    """

    final: bool
    coverage: IterationCoverage
    metrics: RolloutMetrics
    seconds: float
    trajectories: str
    missing_ranks: tuple[int, ...] = ()
    groups: TaskGroupCounts | None = None


_DECODER = JsonDecoder(IterationReport)


def write_report(path: Path, report: IterationReport) -> None:
    """Write the file atomically. Raises StorageError."""
    write_derived(path, (msgspec.json.format(msgspec.json.encode(report), indent=2), b"\n"))


def read_report(path: Path) -> IterationReport | None:
    """The report; None where there is no file. Raises ReportError, StorageError."""
    try:
        return _DECODER.decode(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise storage_error(error, path, "reading the metrics") from error
    except ValueError as error:
        raise ReportError(
            f"{path} is not a metrics file ({error}): run the rank that writes it again"
        ) from error
