"""From a path to what an export reads, and a file of rollouts of tool agents as a source.

*Opening.* Plug-ins are asked first: each entry point of the group `rollgym.export_sources` names a
`SourceOpener`. Otherwise a path is a file of rollouts, the run directory beside one, or a folder
with one.

*A file of rollouts.* Rollouts are written in the order in which they finished, so the repeats of a
task can be anywhere in the file. It is read once to note the task, repeat, reward and position of
every rollout, in under 100 bytes each. Then the tasks are exported in the order of their indexes,
and the same rollouts give the same export in whatever order they finished.
"""

from array import array
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from importlib.metadata import entry_points
from itertools import groupby, islice, pairwise
from math import isfinite
from pathlib import Path

from rollgym.closing import Closable
from rollgym.export.filter import RolloutVersions
from rollgym.export.messages import ConversationError, conversation
from rollgym.export.source import (
    SHOWN,
    BadRowsError,
    ExportedConversation,
    ExportError,
    RolloutPosition,
    RolloutSource,
    SourceCard,
    SourceOpener,
    source_card,
)
from rollgym.plugins import load_plugin
from rollgym.records import Completed, RowError
from rollgym.records.version import VersionOrder
from rollgym.rollouts.paths import FAILURES_END, INPUTS_END, JSONL, RUN_SUFFIX, run_beside
from rollgym.rollouts.scored_rows import ScoredRows
from rollgym.store.errors import storage_errors

ENTRY_POINTS = "rollgym.export_sources"


class RolloutFile(Closable):
    """The rollouts of one file, open for reading."""

    is_stepwise = False

    def __init__(self, path: Path) -> None:
        """Read the file. Raises BadRowsError, ExportError, StorageError."""
        self._path = path
        self.paths: Sequence[Path] = [path]
        self._rows = ScoredRows()
        self._tasks, self._repeats = array("q"), array("q")
        self._lines, self._offsets = array("q"), array("q")
        self._rewards, self._successes = array("d"), array("b")
        self._versions = RolloutVersions()
        with ExitStack() as opened:
            with storage_errors(path, "reading the rollouts"):
                self._file = opened.enter_context(path.open("rb"))
                problems = list(islice(self._read(), SHOWN + 1))
            if problems:
                raise BadRowsError(path, problems)
            self._order = sorted(range(len(self._tasks)), key=self._repeats.__getitem__)
            self._order.sort(key=self._tasks.__getitem__)
            self._reject_duplicates()
            opened.pop_all()

    def __len__(self) -> int:
        return len(self._order)

    def groups(self) -> Iterator[list[RolloutPosition]]:
        """The rollouts of each task, in the order of tasks and repeats."""
        positions = (self._position(number) for number in self._order)
        for _, group in groupby(positions, key=lambda position: position.task):
            yield list(group)

    def row(self, position: RolloutPosition) -> bytes:
        """The line of a rollout. Raises StorageError."""
        with storage_errors(self._path, "reading the rollouts"):
            self._file.seek(position.offset)
            return self._file.readline()

    def conversations(self, position: RolloutPosition) -> list[ExportedConversation]:
        """Raises BadRowsError if chat messages cannot express the rollout, StorageError."""
        try:
            return [conversation(self.row(position))]
        except ConversationError as error:
            raise self.problem(position, str(error)) from error

    def image(self, name: str) -> bytes:
        """Rows have their images in data URLs. Raises ExportError."""
        raise ExportError(f"{self._path} has no file for the image {name}")

    def version_order(self) -> VersionOrder:
        return self._versions.order()

    def card(self) -> SourceCard:
        run = run_beside(self._path)
        return source_card("rollouts", [self._path.name], [run] if run else [])

    def problem(self, position: RolloutPosition, problem: str) -> ExportError:
        return BadRowsError(self._path, [(position.line, problem)])

    def close(self) -> None:
        self._file.close()

    def _read(self) -> Iterator[tuple[int, str]]:
        """Note every rollout; yield the invalid lines."""
        offset = 0
        for number, line in enumerate(self._file, start=1):
            if not line.isspace():
                problem = self._note(line, number, offset)
                if problem is not None:
                    yield number, problem
            offset += len(line)

    def _note(self, line: bytes, number: int, offset: int) -> str | None:
        try:
            row = self._rows.read(line)
        except RowError as error:
            return f"this line is not a valid rollout ({error})"
        if not isfinite(row.reward):
            return f"the reward {row.reward} is not finite"
        if not (row.task < 2**63 and row.repeat < 2**63):
            return "_ng_task_index and _ng_rollout_index must be less than 2**63"
        self._tasks.append(row.task)
        self._repeats.append(row.repeat)
        self._lines.append(number)
        self._offsets.append(offset)
        self._rewards.append(row.reward)
        self._successes.append(Completed(row.reward, row.success).succeeded)
        self._versions.add(row.turns, row.started)
        return None

    def _position(self, number: int) -> RolloutPosition:
        return RolloutPosition(
            task=self._tasks[number],
            repeat=self._repeats[number],
            line=self._lines[number],
            offset=self._offsets[number],
            reward=self._rewards[number],
            success=bool(self._successes[number]),
            versions=self._versions[number],
        )

    def _reject_duplicates(self) -> None:
        for one, other in pairwise(self._order):
            if (self._tasks[one], self._repeats[one]) == (self._tasks[other], self._repeats[other]):
                raise ExportError(
                    f"{self._path}:{self._lines[other]}: rollout {self._repeats[other]} of task "
                    f"{self._tasks[other]} is in line {self._lines[one]} already. Nothing was "
                    "written. Remove one of the two, or export the files of different runs "
                    "one by one."
                )


def open_source(path: Path) -> RolloutSource:
    """The completed rollouts at a path. Raises ExportError, StoreError."""
    for point in entry_points(group=ENTRY_POINTS):
        opener: SourceOpener = load_plugin(point, "the plug-in", ExportError)
        found = opener(path)
        if found is not None:
            return found
    return RolloutFile(_rollouts_file(path))


def _rollouts_file(path: Path) -> Path:
    """The file that a path names, or that a folder has. Raises ExportError."""
    if not path.is_dir():
        return path
    found = _files_in(path)
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(map(str, found))
        raise ExportError(f"{path} has {len(found)} files of rollouts. Give one of them: {names}")
    raise ExportError(f"{path} has no file of rollouts. Give the .jsonl file of a collection.")


def _files_in(folder: Path) -> list[Path]:
    """The files of rollouts in a folder, or of a run directory: beside it."""
    if folder.name.endswith(RUN_SUFFIX):
        stem = folder.name.removesuffix(RUN_SUFFIX)
        found = [folder.with_name(f"{stem}{JSONL}"), *folder.parent.glob(f"{stem}_shard-*{JSONL}")]
    else:
        found = list(folder.glob(f"*{JSONL}"))
    found = [each for each in found if each.is_file()]
    return sorted(each for each in found if not each.stem.endswith((FAILURES_END, INPUTS_END)))
