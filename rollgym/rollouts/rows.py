"""Rollouts read back from their output file, for files that came without their run."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec

from rollgym.records import Attempt, Completed
from rollgym.store import InputsError
from rollgym.store.errors import storage_error


class _OutputRow(msgspec.Struct):
    reward: float
    task: int = msgspec.field(name="_ng_task_index")
    repeat: int = msgspec.field(name="_ng_rollout_index")
    success: bool | None = None


_ROW = msgspec.json.Decoder(_OutputRow)


def attempts_in(path: Path) -> Iterator[Attempt]:
    """Every row as the record of a completed rollout, its group as large as the file has it.

    Reads the file twice. Raises InputsError with file and line, StorageError.
    """
    repeats = Counter(row.task for row in _rows(path))
    for row in _rows(path):
        yield Attempt(
            task=row.task,
            repeat=row.repeat,
            repeats=repeats[row.task],
            attempt=1,
            final=True,
            seed=0,
            started=0.0,
            seconds=0.0,
            outcome=Completed(row.reward, success=row.success),
        )


def _rows(path: Path) -> Iterator[_OutputRow]:
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.isspace():
                    continue
                try:
                    yield _ROW.decode(line)
                except msgspec.DecodeError as error:
                    raise InputsError(
                        f"{path}:{number}: this is no row of a rollout ({error})"
                    ) from error
    except OSError as error:
        raise storage_error(error, path, "reading the rollouts") from error
