"""The outcomes in a file of rollouts, with their signs and without their conversations.

The file may be of another program, such as NeMo Gym. Its rows have `reward` and `response`, and
perhaps no `success`. Those of early versions have no indexes either: rows with the same request
are then the rollouts of one task, numbered as they appear.
"""

from collections import Counter
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path

import msgspec

from rollgym.records import Attempt, Completed, Row, RowError
from rollgym.records.decoding import JsonDecoder, decode_json
from rollgym.records.task import Natural
from rollgym.records.version import PolicyTurn
from rollgym.rollouts import rows
from rollgym.rollouts.input_file import InputFile, lines_of
from rollgym.rollouts.signs import signs_in_row
from rollgym.store import InputsError
from rollgym.store.errors import storage_errors


class ScoredRow(msgspec.Struct, frozen=True):
    """The key of a rollout, its reward, and its success where the row says it.

    `turns` are those of the policy, `started` is when its attempt began; both where they are known.
    """

    task: int
    repeat: int
    reward: float
    success: bool | None
    turns: tuple[PolicyTurn, ...] = ()
    started: float = 0.0


class _Scored(msgspec.Struct):
    reward: float
    task: Natural | None = msgspec.field(default=None, name=rows.TASK_INDEX)
    repeat: Natural | None = msgspec.field(default=None, name=rows.ROLLOUT_INDEX)
    success: bool | None = None
    params: msgspec.Raw = msgspec.field(default=msgspec.Raw(b""), name=rows.PARAMS)
    turns: tuple[PolicyTurn, ...] | None = msgspec.field(default=None, name=rows.TURNS)
    metadata: msgspec.Raw = msgspec.Raw(b"")
    own_metadata: msgspec.Raw = msgspec.field(default=msgspec.Raw(b""), name=rows.OWN_METADATA)

    @property
    def started(self) -> float:
        """When its attempt began."""
        named = {rows.METADATA: self.metadata, rows.OWN_METADATA: self.own_metadata}
        found = rows.own_metadata({name: raw for name, raw in named.items() if bytes(raw)})
        try:
            return decode_json(found.get("started", msgspec.Raw(b"0")), float)
        except msgspec.DecodeError:
            return 0.0


_SCORED = JsonDecoder(_Scored)


class ScoredRows:
    """Reads the rows of one file, in their order."""

    def __init__(self) -> None:
        self._tasks: dict[bytes, int] = {}
        self._repeats: Counter[int] = Counter()

    def read(self, line: bytes) -> ScoredRow:
        """Raises RowError."""
        try:
            row = _SCORED.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise RowError(str(error)) from error
        task = self._task(row) if row.task is None else row.task
        repeat = row.repeat
        if repeat is None:
            repeat = self._repeats[task]
            self._repeats[task] += 1
        started = row.started if row.turns else 0.0
        return ScoredRow(task, repeat, row.reward, row.success, row.turns or (), started)

    def _task(self, row: _Scored) -> int:
        if not bytes(row.params).startswith(b"{"):
            raise RowError(f"it has neither {rows.TASK_INDEX} nor {rows.PARAMS}")
        request = rows.without_seed(Row.of({rows.PARAMS: row.params}))
        digest = blake2b(request.raw, digest_size=16).digest()
        return self._tasks.setdefault(digest, len(self._tasks))


def attempts_in(path: Path) -> Iterator[Attempt]:
    """Every row of a file as the record of a completed rollout.

    A task has as many repeats as the file has rollouts of it. Reads the file twice. Raises
    InputsError with file and line, StorageError.
    """
    file = InputFile(path)
    repeats = Counter(row.task for row, _ in _scored_rows(file))
    for row, line in _scored_rows(file):
        completed = Completed(row.reward, success=row.success)
        signs = signs_in_row(Row.parse(line).fields, success=completed.succeeded)
        yield Attempt(
            task=row.task,
            repeat=row.repeat,
            repeats=repeats[row.task],
            attempt=1,
            final=True,
            seed=0,
            started=row.started,
            seconds=0.0,
            outcome=Completed(row.reward, success=row.success, measures=signs, turns=row.turns),
        )


def _scored_rows(source: InputFile) -> Iterator[tuple[ScoredRow, bytes]]:
    reader = ScoredRows()
    with storage_errors(source.path, "reading the rollouts"), source.open() as file:
        for number, _, content in lines_of(file):
            try:
                yield reader.read(content), content
            except RowError as error:
                raise not_a_rollout(source.path, number, error) from error


def not_a_rollout(path: Path, number: int, error: Exception) -> InputsError:
    return InputsError(f"{path}:{number}: this is not the row of a rollout: {error}")
