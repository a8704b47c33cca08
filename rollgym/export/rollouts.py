"""Reading a file of rollouts: an index of it, and the conversations of single rollouts.

Rollouts are written in the order in which they finished, so the repeats of a task can be anywhere
in the file. It is read once to note the task, repeat, reward and position of every rollout, in
under 100 bytes each. Then the tasks are exported in the order of their indexes, and the same
rollouts give the same export in whatever order they finished.
"""

from array import array
from collections.abc import Iterator, Sequence
from itertools import groupby, islice, pairwise
from math import isfinite
from pathlib import Path
from typing import Self

import msgspec

from rollgym.export.messages import ConversationError, ExportedConversation, conversation
from rollgym.records import Completed, RowError
from rollgym.rollouts.scored_rows import ScoredRows
from rollgym.store import RefusedError
from rollgym.store.errors import storage_errors

SHOWN = 20


class ExportError(RefusedError):
    """The rollouts cannot be exported, and no file was written."""


class BadRowsError(ExportError):
    """Some lines of the file are not valid rollouts; the message lists the first ones."""

    def __init__(self, path: Path, problems: Sequence[tuple[int, str]]) -> None:
        shown = [f"{path}:{line}: {problem}" for line, problem in problems[:SHOWN]]
        if len(problems) > SHOWN:
            shown.append("... and more")
        advice = "Nothing was written. Export the file of rollouts that a collection wrote."
        super().__init__("\n".join([*shown, advice]))


class RolloutPosition(msgspec.Struct, frozen=True):
    """One rollout: its key, the position of its line, and its reward."""

    task: int
    repeat: int
    line: int
    offset: int
    reward: float
    success: bool


class RolloutIndex:
    """The rollouts of one file."""

    def __init__(self, path: Path) -> None:
        """Read the file. Raises BadRowsError, ExportError, StorageError."""
        self._path = path
        self._rows = ScoredRows()
        self._tasks, self._repeats = array("q"), array("q")
        self._lines, self._offsets = array("q"), array("q")
        self._rewards, self._successes = array("d"), array("b")
        with storage_errors(path, "reading the rollouts"):
            problems = list(islice(self._read(), SHOWN + 1))
        if problems:
            raise BadRowsError(path, problems)
        self._order = sorted(range(len(self._tasks)), key=self._repeats.__getitem__)
        self._order.sort(key=self._tasks.__getitem__)
        self._reject_duplicates()

    def __len__(self) -> int:
        return len(self._order)

    def groups(self) -> Iterator[list[RolloutPosition]]:
        """The rollouts of each task, in the order of tasks and repeats."""
        positions = (self._position(number) for number in self._order)
        for _, group in groupby(positions, key=lambda position: position.task):
            yield list(group)

    def _read(self) -> Iterator[tuple[int, str]]:
        """Note every rollout; yield the invalid lines."""
        with self._path.open("rb") as file:
            offset = 0
            for number, line in enumerate(file, start=1):
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
        return None

    def _position(self, number: int) -> RolloutPosition:
        return RolloutPosition(
            task=self._tasks[number],
            repeat=self._repeats[number],
            line=self._lines[number],
            offset=self._offsets[number],
            reward=self._rewards[number],
            success=bool(self._successes[number]),
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


class Transcripts:
    """The conversations of a file of rollouts, read by their positions."""

    def __init__(self, path: Path) -> None:
        """Raises StorageError."""
        self._path = path
        with storage_errors(path, "reading the rollouts"):
            self._file = path.open("rb")

    def of(self, position: RolloutPosition) -> ExportedConversation:
        """Raises BadRowsError if chat messages cannot express the rollout, StorageError."""
        with storage_errors(self._path, "reading the rollouts"):
            self._file.seek(position.offset)
            line = self._file.readline()
        try:
            return conversation(line)
        except ConversationError as error:
            raise BadRowsError(self._path, [(position.line, str(error))]) from error

    def together(self, positions: Sequence[RolloutPosition]) -> list[ExportedConversation]:
        """Read conversations of one task, which must have the same prompt and tools.

        Raises as `of` does, and BadRowsError for a different prompt.
        """
        conversations = [self.of(position) for position in positions]
        for position, found in zip(positions, conversations, strict=True):
            first = conversations[0]
            if (found.prompt, found.tools) != (first.prompt, first.tools):
                problem = (
                    f"prompt or tools differ from those in line {positions[0].line}, but both are "
                    f"rollouts of task {position.task}: different tasks need different indexes"
                )
                raise BadRowsError(self._path, [(position.line, problem)])
        return conversations

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
