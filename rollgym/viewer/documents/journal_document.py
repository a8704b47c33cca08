"""Documents over lines of a journal.

A line is one attempt at a rollout and has only the fields that the input row does not have. The
document shows both together. The conversation is where the worker put it: in the items of its
`response`, or under `output`. The row of the output file, with its transcript, is made on request.
"""

from functools import cached_property
from typing import Any

import msgspec

from rollgym.records import Attempt, Completed, Failed, Omitted, Row, Task, decode_attempt
from rollgym.rollouts import rows
from rollgym.rollouts.output_row import failure_row, output_row
from rollgym.viewer.documents.row_document import FieldsDocument
from rollgym.viewer.documents.sections import FAILURE
from rollgym.viewer.documents.texts import names_in, value_at
from rollgym.viewer.source import DocumentContext
from rollgym.viewer.summary import RecordSummary
from rollgym.viewer.values import (
    Fields,
    fields_of,
    raw_of,
)

RESULT = "result"
"""The field for a result that is not an object."""


class JournalDocument(FieldsDocument):
    """A record of an attempt, with the input row of its task if the source has it."""

    def __init__(self, record: bytes, context: DocumentContext, summary: RecordSummary) -> None:
        """Raises ValueError if the record is not an attempt."""
        try:
            self._attempt = decode_attempt(record)
        except RecursionError as error:
            raise ValueError("the record is nested too deeply to be shown") from error
        self._input = _input_row(context, self._attempt)
        super().__init__(context, summary, len(record))

    def row(self) -> bytes:
        """The row of the file of rollouts or failures, or else all fields that are known."""
        attempt = self._attempt
        try:
            task = Task(attempt.task, self._input or Row(b"{}"), max(attempt.repeats, 1))
            if isinstance(attempt.outcome, Failed):
                return failure_row(task, attempt).raw
            has_response = fields_of(self._fields.get(rows.RESPONSE)) is not None
            if isinstance(attempt.outcome, Completed) and has_response:
                return output_row(task, attempt).raw
        except (ValueError, LookupError, TypeError, RecursionError):
            # A result of an unknown shape has no row in any file.
            pass
        return msgspec.json.encode(self._fields)

    def raw(self, path: str) -> bytes:
        try:
            return super().raw(path)
        except KeyError:
            return bytes(value_at(msgspec.Raw(self.row()), names_in(path)))

    @cached_property
    def _fields(self) -> Fields:
        return dict(self._input_fields() or {}) | _added_fields(self._attempt)

    def _input_fields(self) -> Fields | None:
        return None if self._input is None else dict(self._input.fields)


def _input_row(context: DocumentContext, attempt: Attempt) -> Row | None:
    """The input row of the rollout, as output files have it."""
    row = context.input_row(attempt.task)
    if row is None:
        return None
    try:
        return rows.rollout_row(Task(attempt.task, row, max(attempt.repeats, 1)), attempt.repeat)[0]
    except (ValueError, LookupError, RecursionError):
        return row


def _added_fields(attempt: Attempt) -> dict[str, msgspec.Raw]:
    """The fields that the record adds to its input row."""
    outcome = attempt.outcome
    result = fields_of(outcome.result)
    if result is None:
        result = {RESULT: outcome.result} if bytes(outcome.result) else {}
    values: dict[str, Any] = {rows.TASK_INDEX: attempt.task, rows.ROLLOUT_INDEX: attempt.repeat}
    if isinstance(outcome, Completed):
        values |= {rows.REWARD: outcome.reward, rows.SUCCESS: outcome.succeeded}
    elif isinstance(outcome, Failed):
        values |= {FAILURE: outcome.failure, rows.FAILURE_CLASS: outcome.failure.kind}
    theirs = fields_of(result.get(rows.METADATA)) or {}
    metadata = rows.metadata_fields(theirs, _metadata(attempt))
    if outcome.turns:
        values[rows.TURNS] = outcome.turns
    added = {name: raw_of(value) for name, value in values.items()}
    return result | added | {name: raw_of(value) for name, value in metadata.items()}


def _metadata(attempt: Attempt) -> dict[str, msgspec.Raw]:
    """The numbers of an attempt, by the names that rows use."""
    outcome = attempt.outcome
    numbers: dict[str, Any] = {
        "attempts": attempt.attempt,
        "final": attempt.final,
        "seed": attempt.seed,
        "started": attempt.started,
        "seconds": attempt.seconds,
        "timings": outcome.phases,
        "spans": outcome.spans,
        "usage": outcome.usage,
    }
    match outcome:
        case Completed():
            numbers["measures"] = outcome.measures
        case Omitted():
            numbers |= {"omitted": outcome.reason, "omitted_because": outcome.detail}
    return {name: raw_of(value) for name, value in numbers.items()}
