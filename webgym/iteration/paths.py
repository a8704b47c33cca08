"""The iterations of a folder: where their files are, and which one a command means.

Without a number, a command continues the last iteration that was begun, until it is finished: done
to its end by one process, or by several ranks and put together. Then it begins the next. Ranks that
are started together come to the same number, whichever is first: what one of them makes belongs to
an iteration that is not finished. Who runs again what failed or was left out means the last one,
finished or not.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from rollgym.store import OpenAdvice
from rollgym.store.errors import storage_error
from webgym.iteration.ranks import rank_suffix
from webgym.iteration.report import ReportError, read_report
from webgym.tasks.task import Split

_OF_ITERATION = re.compile(r"(?:.*\.)?iteration(\d+)(?:_rank_\d+|\.sample\.jsonl|\.run|\.json)*")
ITERATION_ADVICE = OpenAdvice(
    another_run="choose another iteration=… or another save_path=…",
    sharing="Several processes can share an iteration as ranks: give each its RANK, and all the "
    "same WORLD_SIZE.",
)
"""What the user of a web rollout can do when the run of an iteration is not opened."""


class IterationPaths(msgspec.Struct, frozen=True):
    """The files of one iteration. `suffix` is that of a rank, empty for what is everybody's."""

    save_path: Path
    split: Split
    iteration: int
    suffix: str = ""

    def of_rank(self, index: int, count: int) -> "IterationPaths":
        """The same for one of `count` ranks."""
        return msgspec.structs.replace(self, suffix=rank_suffix(index, count))

    @property
    def folder(self) -> Path:
        return self.save_path / f"{self.split}_trajectories"

    @property
    def trajectories(self) -> Path:
        """The `.pt`."""
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
        """Of all iterations and ranks."""
        return self.save_path / "screenshots"

    @property
    def blocklist(self) -> Path:
        return self.save_path / "blocklist.jsonl"

    @property
    def _name(self) -> str:
        return f"iteration{self.iteration}{self.suffix}"


def find_iteration(save_path: Path, split: Split) -> int:
    """The iteration to go on with: the last if it is not finished, else the next; 0 at first.

    Raises StorageError.
    """
    last = last_iteration(save_path, split)
    if last is None:
        return 0
    return last + 1 if is_finished(IterationPaths(save_path, split, last)) else last


def last_iteration(save_path: Path, split: Split) -> int | None:
    """The last that was begun, finished or not; None where there is none. Raises StorageError."""
    return max(_begun(IterationPaths(save_path, split, 0).folder), default=None)


def is_finished(paths: IterationPaths) -> bool:
    """Whether the metrics at these paths say that nothing is left to do. Raises StorageError."""
    try:
        report = read_report(paths.metrics)
    except ReportError:  # then nothing says so
        return False
    return report is not None and report.final


def _begun(folder: Path) -> Iterator[int]:
    try:
        for path in folder.iterdir():
            if found := _OF_ITERATION.fullmatch(path.name):
                yield int(found[1])
    except FileNotFoundError:
        return
    except OSError as error:
        raise storage_error(error, folder, "looking for iterations") from error
