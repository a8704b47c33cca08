"""The tasks of a run in the index: what is asked, by the index of the task."""

import sqlite3
from pathlib import Path

import msgspec

from rollgym.records import Row
from rollgym.rollouts.fields import TASK_INDEX
from rollgym.store.inputs import decode_task
from rollgym.viewer.formats.facts import facts_of_row
from rollgym.viewer.index.lines import Line
from rollgym.viewer.index.progress import Progress
from rollgym.viewer.index.readers import LineReader
from rollgym.viewer.values import LARGEST

INPUTS_PART = -1
"""The inputs are no part, and have no entries; what was read of them is kept under this number."""
_BATCH = 512


def input_task(line: bytes) -> tuple[int, Row]:
    """The index and the row of a task: from a run's inputs, or from rows that name it.

    Raises ValueError.
    """
    try:
        task = decode_task(line)
    except msgspec.ValidationError:
        row = Row.parse(line)
        index = row.get(TASK_INDEX, int)
        if index is None or not 0 <= index <= LARGEST:
            raise ValueError("a row without the index of its task") from None
        return index, row
    if task.index > LARGEST:
        raise ValueError(f"task index {task.index} is too large")
    return task.index, task.row


class InputLines(LineReader):
    """A materialised `inputs.jsonl`. A line that is no task is passed over."""

    def __init__(self, path: Path, progress: Progress, connection: sqlite3.Connection) -> None:
        super().__init__(path, progress)
        self._connection = connection
        self._changed = False
        self._pending: list[tuple[object, ...]] = []

    def take_changed(self) -> bool:
        """Whether tasks have come since this was last asked."""
        self._flush()
        changed, self._changed = self._changed, False
        return changed

    def _take(self, line: Line) -> None:
        self._take_whole(line)

    def _take_whole(self, line: Line) -> bool:
        try:
            task, row = input_task(line.content or b"")
        except (ValueError, RecursionError):
            return False
        facts = facts_of_row(row)
        place = (line.position, line.length)
        told = (facts.key, facts.title, facts.agent, facts.domain, facts.difficulty)
        self._pending.append((task, *place, *told))
        self._changed = True
        if len(self._pending) >= _BATCH:
            self._flush()
        return True

    def _drop(self) -> None:
        """The line that is finished now is the same task, or the file was replaced."""

    def _flush(self) -> None:
        self._connection.executemany(
            "INSERT OR REPLACE INTO task VALUES (?, ?, ?, ?, ?, ?, ?, ?)", self._pending
        )
        self._pending.clear()
