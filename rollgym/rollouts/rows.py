"""Rollouts read back from their output file, for files that came without their run."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec

from rollgym.records import Attempt, Completed
from rollgym.records.task import Natural
from rollgym.rollouts.input_file import InputFile, lines_of
from rollgym.store import InputsError
from rollgym.store.errors import storage_error


class _OutputRow(msgspec.Struct):
    reward: float
    task: Natural = msgspec.field(name="_ng_task_index")
    repeat: Natural = msgspec.field(name="_ng_rollout_index")
    success: bool | None = None


_ROW = msgspec.json.Decoder(_OutputRow)


def attempts_in(path: Path) -> Iterator[Attempt]:
    """Every row as the record of a completed rollout, its group as large as the file has it.

    Reads the file twice. Raises InputsError with file and line, StorageError.
    """
    file = InputFile(path)
    repeats = Counter(row.task for row in _rows(file))
    for row in _rows(file):
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


def _rows(source: InputFile) -> Iterator[_OutputRow]:
    try:
        with source.open() as file:
            for number, _, content in lines_of(file):
                try:
                    yield _ROW.decode(content)
                except msgspec.DecodeError as error:
                    raise InputsError(
                        f"{source.path}:{number}: this is no row of a rollout ({error})"
                    ) from error
    except OSError as error:
        raise storage_error(error, source.path, "reading the rollouts") from error
