"""A row of a file of rollouts, of failures, or of inputs, as it is shown.

The row of a failed rollout often does not say what was asked. It is then shown with the prompt of
its task, from the inputs of the source.
"""

import codecs
from functools import cached_property

import msgspec

from rollgym.rollouts.fields import PARAMS
from rollgym.viewer.documents.conversation import MESSAGES
from rollgym.viewer.documents.fields_document import FieldsDocument
from rollgym.viewer.source import Context
from rollgym.viewer.summary import Summary
from rollgym.viewer.values import Fields, fields_of_record, is_present

_PROMPT = (PARAMS, MESSAGES)
_WINDOW = 1 << 20


class RowDocument(FieldsDocument):
    """A line that is one JSON object."""

    def __init__(self, record: bytes, context: Context, summary: Summary) -> None:
        """Raises ValueError for what is no row."""
        super().__init__(context, summary, len(record))
        self._record = record
        self._own = _checked_fields(record)

    def row(self) -> bytes:
        return self._record.strip()

    @cached_property
    def _fields(self) -> Fields:
        if any(is_present(self._own.get(name)) for name in _PROMPT):
            return self._own
        asked = self._asked() or {}
        return {name: asked[name] for name in _PROMPT if name in asked} | dict(self._own)


def _checked_fields(record: bytes) -> Fields:
    """The fields of a line, undecoded. Raises ValueError for what is not one object in UTF-8."""
    _check_text(record)
    try:
        return fields_of_record(record)
    except RecursionError as error:
        raise ValueError("the record is nested too deeply to be shown") from error
    except msgspec.ValidationError as error:
        raise ValueError("the record is not a JSON object") from error


def _check_text(record: bytes) -> None:
    """In windows, since the text of a long record may take four times as much memory."""
    decoder, view = codecs.getincrementaldecoder("utf-8")(), memoryview(record)
    for start in range(0, len(record), _WINDOW):
        decoder.decode(view[start : start + _WINDOW])
    decoder.decode(b"", final=True)
