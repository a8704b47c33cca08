"""Where each rollout of a file stands, and what it was worth.

Rollouts are written in the order in which they finished, so the repeats of a task lie anywhere. The
file is read once to note, for every rollout, its task, repeat, reward and place: under 100 bytes
each, whatever the transcripts weigh. Then the tasks can be taken in the order of their indices, and
the same rollouts give the same export in whatever order they finished.
"""

from array import array
from collections.abc import Iterator
from itertools import groupby, islice, pairwise
from math import isfinite
from pathlib import Path

import msgspec

from rollgym.export.errors import SHOWN, BadRowsError, ExportError
from rollgym.records import Completed
from rollgym.store.errors import storage_error


class _Head(msgspec.Struct):
    task: int = msgspec.field(name="_ng_task_index")
    repeat: int = msgspec.field(name="_ng_rollout_index")
    reward: float
    success: bool | None = None


_DECODER = msgspec.json.Decoder(_Head)


class RolloutPlace(msgspec.Struct, frozen=True):
    """One rollout: which it is, where its line begins, and what the verifier said of it."""

    task: int
    repeat: int
    line: int
    offset: int
    reward: float
    success: bool


class RolloutIndex:
    """The rollouts of one file."""

    def __init__(self, path: Path) -> None:
        """Reads the file. Raises BadRowsError, ExportError, StorageError."""
        self._path = path
        self._tasks, self._repeats = array("q"), array("q")
        self._lines, self._offsets = array("q"), array("q")
        self._rewards, self._successes = array("d"), array("b")
        try:
            problems = list(islice(self._read(), SHOWN + 1))
        except OSError as error:
            raise storage_error(error, path, "reading the rollouts") from error
        if problems:
            raise BadRowsError(path, problems)
        self._order = sorted(range(len(self._tasks)), key=self._repeats.__getitem__)
        self._order.sort(key=self._tasks.__getitem__)
        self._refuse_repetition()

    def __len__(self) -> int:
        return len(self._order)

    def groups(self) -> Iterator[list[RolloutPlace]]:
        """The rollouts of each task in the order of their repeats, tasks by their index."""
        places = (self._place(position) for position in self._order)
        for _, group in groupby(places, key=lambda place: place.task):
            yield list(group)

    def _read(self) -> Iterator[tuple[int, str]]:
        """Note every rollout; what comes out are the lines that are none."""
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
            head = _DECODER.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            return f"this is no rollout ({error})"
        if not isfinite(head.reward):
            return f"the reward {head.reward} is not finite"
        if not (0 <= head.task < 2**63 and 0 <= head.repeat < 2**63):
            return "_ng_task_index and _ng_rollout_index count from 0"
        self._tasks.append(head.task)
        self._repeats.append(head.repeat)
        self._lines.append(number)
        self._offsets.append(offset)
        self._rewards.append(head.reward)
        self._successes.append(Completed(head.reward, head.success).succeeded)
        return None

    def _place(self, position: int) -> RolloutPlace:
        return RolloutPlace(
            task=self._tasks[position],
            repeat=self._repeats[position],
            line=self._lines[position],
            offset=self._offsets[position],
            reward=self._rewards[position],
            success=bool(self._successes[position]),
        )

    def _refuse_repetition(self) -> None:
        for one, other in pairwise(self._order):
            if (self._tasks[one], self._repeats[one]) == (self._tasks[other], self._repeats[other]):
                raise ExportError(
                    f"{self._path}:{self._lines[other]}: rollout {self._repeats[other]} of task "
                    f"{self._tasks[other]} stands in line {self._lines[one]} already. Nothing was "
                    "written. Remove one of the two, or export the files of different runs "
                    "one by one."
                )
