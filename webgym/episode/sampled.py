"""The tasks that AsyncWebGym is given, in whatever form its users have them."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol, runtime_checkable

from rollgym.records import Row, RowError, Task
from rollgym.store import InputsError
from webgym.tasks import WebTask


@runtime_checkable
class Table(Protocol):
    """A data frame, as pandas and others have them."""

    def to_dict(self, orient: str) -> list[dict[str, object]]: ...


Sampled = Iterable[Task | WebTask | Row | Mapping[str, object]] | Table


def tasks_of(sampled: Sampled) -> Iterator[Task]:
    """Each task with its index; all of them are checked. Raises InputsError.

    Rows are numbered in their order; a `Task` has its number, and its repeats, already.
    """
    rows = sampled.to_dict("records") if isinstance(sampled, Table) else sampled
    for position, given in enumerate(rows):
        task = _task(position, given)
        try:
            WebTask.of(task.row, str(task.index))
        except RowError as error:
            raise InputsError(f"sampled task {position} is no web task: {error}") from error
        yield task


def _task(position: int, given: Task | WebTask | Row | Mapping[str, object]) -> Task:
    match given:
        case Task():
            return given
        case WebTask():
            return Task(position, given.row)
        case Row():
            return Task(position, given)
        case Mapping():
            try:
                return Task(position, Row.of(given))
            except TypeError as error:
                raise InputsError(f"sampled task {position} is no row: {error}") from error
        case _:
            raise InputsError(
                f"sampled task {position} is {type(given).__name__}, not a row of a task file"
            )
