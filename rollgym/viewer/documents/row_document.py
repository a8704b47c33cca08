"""A row of a file of rollouts, of failures, or of inputs, as it is shown.

A row that does not say what was asked, as those of failed rollouts often do not, is shown with the
prompt of its task, from the inputs of the source. Bytes that are no UTF-8 are shown as `\\ufffd`.
"""

import codecs
from collections.abc import Iterator
from functools import cached_property

import msgspec

from rollgym.rollouts.fields import PARAMS
from rollgym.viewer.documents.conversation import MESSAGES
from rollgym.viewer.documents.fields_document import FieldsDocument
from rollgym.viewer.source import Context
from rollgym.viewer.summary import Summary
from rollgym.viewer.values import Fields, fields_of_record, is_present, raw_of

_PROMPT = (PARAMS, MESSAGES)
_WINDOW = 1 << 20


class RowDocument(FieldsDocument):
    """A line that is one JSON object."""

    def __init__(self, record: bytes, context: Context, summary: Summary) -> None:
        """Raises ValueError for what is no row."""
        super().__init__(context, summary, len(record))
        self._record = _in_utf8(record)
        self._own = _own_fields(self._record)

    def row(self) -> bytes:
        return self._record.strip()

    @cached_property
    def _fields(self) -> Fields:
        if any(is_present(self._own.get(name)) for name in _PROMPT):
            return self._own
        return dict(self._own) | _prompt_of(self._asked() or {})


def _prompt_of(asked: Fields) -> dict[str, msgspec.Raw]:
    """What an input row asks, as the field of a prompt, also where it is asked in `messages`."""
    params, messages = asked.get(PARAMS), asked.get(MESSAGES)
    if params is not None and is_present(params):
        return {PARAMS: params}
    if messages is not None and is_present(messages):
        return {PARAMS: raw_of({"input": messages})}
    return {}


def _own_fields(record: bytes) -> Fields:
    """The fields of a line, undecoded. Raises ValueError for what is not one object."""
    try:
        return fields_of_record(record)
    except RecursionError as error:
        raise ValueError("the record is nested too deeply to be shown") from error
    except msgspec.ValidationError as error:
        raise ValueError("the record is not a JSON object") from error


def _in_utf8(record: bytes) -> bytes:
    """The record, with `\\ufffd` for what is no UTF-8."""
    try:
        for _ in _texts(record, "strict"):
            pass
    except UnicodeDecodeError:
        return b"".join(text.encode() for text in _texts(record, "replace"))
    return record


def _texts(record: bytes, errors: str) -> Iterator[str]:
    """In windows, since the text of a long record may take four times as much memory."""
    decoder, view = codecs.getincrementaldecoder("utf-8")(errors), memoryview(record)
    for start in range(0, len(record), _WINDOW):
        yield decoder.decode(view[start : start + _WINDOW])
    yield decoder.decode(b"", final=True)
