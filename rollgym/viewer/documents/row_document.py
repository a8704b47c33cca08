"""Documents over rows of a file, and over lines that are not records.

The fields of a row are windows on the record's bytes. Opening a document decodes the first level of
the row; items of the conversation are decoded when their turns are requested. A row without a
prompt, which is common for failed rollouts, is shown with the prompt of its task from the source's
inputs. Bytes that are not UTF-8 are shown as `\\ufffd`.
"""

import codecs
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from functools import cached_property, partial

import msgspec

from rollgym.records.tokens import SAMPLED_IDS, TokenTurn
from rollgym.records.version import PolicyTurn
from rollgym.rollouts import rows
from rollgym.rollouts.rows import PARAMS, own_metadata
from rollgym.rollouts.token_rows import rollout_tokens
from rollgym.viewer.documents.conversation import (
    MESSAGES,
    RowConversation,
    policy_turns,
    shown_versions,
    with_turn_versions,
)
from rollgym.viewer.documents.images import picture_of
from rollgym.viewer.documents.sections import (
    failure_of,
    sections_of,
    signs_of_summary,
    usage_of,
)
from rollgym.viewer.documents.texts import names_in, value_at
from rollgym.viewer.documents.timeline import assign_turns, timeline_of
from rollgym.viewer.documents.token_map import TokenDocument, TokenMap
from rollgym.viewer.documents.turns import TextMatcher, TurnReader
from rollgym.viewer.source import DocumentContext
from rollgym.viewer.summary import RecordSummary
from rollgym.viewer.values import (
    Fields,
    fields_of,
    fields_of_record,
    is_present,
    items_of,
    raw_of,
    text_of,
)
from rollgym.viewer.view import (
    FailureView,
    FieldView,
    PictureData,
    RolloutDocument,
    RolloutView,
    SectionView,
    Text,
    TimelineView,
    TurnView,
    UnreadableView,
)


class FieldsDocument(TokenDocument):
    """A document over the fields of a row, which subclasses provide."""

    def __init__(self, context: DocumentContext, summary: RecordSummary, size: int) -> None:
        super().__init__(summary, size)
        self._context = context

    @property
    @abstractmethod
    def _fields(self) -> Fields:
        """The fields of the row that is shown."""

    def view(self) -> RolloutView:
        summary, reader, failure = self._summary, self._reader(), failure_of(self._fields)
        return RolloutView(
            summary=summary,
            title=summary.facts.title or _name(summary),
            bytes=self.size,
            turns=len(self._conversation.turns),
            prompt=tuple(
                reader.turn(item, index) for index, item in enumerate(self._conversation.prompt)
            ),
            failure=failure,
            signs=signs_of_summary(summary),
            timeline=self._timeline(failure),
            usage=usage_of(self._fields),
            has_tokens=_has_tokens(self._fields),
            sections=sections_of(
                self._fields, self._input_fields(), conversation=self._conversation.field
            ),
        )

    def turns(self, start: int, count: int) -> list[TurnView]:
        reader = self._reader()
        wanted = self._conversation.turns[start : start + count]
        found = [reader.turn(item, index) for index, item in enumerate(wanted, start)]
        return with_turn_versions(found, self._versions)

    def raw(self, path: str) -> bytes:
        if not path:
            return self.row()
        name, *names = names_in(path)
        return bytes(value_at(self._fields[name], names))

    def image(self, path: str) -> PictureData:
        """Raises KeyError if there is no picture at this path that can be shown."""
        url = text_of(msgspec.Raw(self.raw(path))) if path else None
        try:
            return picture_of(url or "")
        except ValueError as error:
            raise KeyError(path) from error

    def find(self, text: str) -> tuple[list[int], list[int]]:
        if not text:
            return [], []
        needle, reader = TextMatcher(text), self._reader(whole=True)
        found = [
            index
            for index, item in enumerate(self._conversation.turns)
            if needle.is_in(item.raw, partial(reader.turn, item, index))
        ]
        return found, []

    def _timeline(self, failure: FailureView | None) -> TimelineView | None:
        timeline = timeline_of(own_metadata(self._fields), self._summary.seconds)
        if timeline is None or not timeline.spans:
            return timeline
        model_failed = failure is not None and failure.kind.startswith("model_")
        return assign_turns(timeline, self._conversation.replies(), model_failed=model_failed)

    def _input_fields(self) -> Mapping[str, msgspec.Raw] | None:
        """The fields of the task's input row; None where the source does not have it."""
        task = self._summary.task
        row = None if task is None else self._context.input_row(task)
        return None if row is None else row.fields

    def _reader(self, *, whole: bool = False) -> TurnReader:
        has_folder = self._context.images is not None
        return TurnReader(self._conversation.tool_of, has_folder=has_folder, whole=whole)

    @cached_property
    def token_map(self) -> TokenMap:
        named = {name: self._fields[name] for name in _WITH_TOKENS if name in self._fields}
        return TokenMap(rollout_tokens(msgspec.json.encode(named)), self._token_texts)

    def _token_texts(self, turn: TokenTurn) -> list[str] | None:
        """The texts of the sampled tokens, which the response has if they were asked for."""
        items = self._response_items
        if turn.item is None or not turn.item < len(items):
            return None
        parts = items_of((fields_of(items[turn.item]) or {}).get("content")) or []
        known = [items_of((fields_of(part) or {}).get("logprobs")) for part in parts]
        return [
            text_of((fields_of(entry) or {}).get("token")) or ""
            for entries in known
            for entry in entries or ()
        ]

    @cached_property
    def _response_items(self) -> list[msgspec.Raw]:
        response = fields_of(self._fields.get(rows.RESPONSE)) or {}
        return items_of(response.get(rows.OUTPUT)) or []

    @cached_property
    def _policy_turns(self) -> tuple[PolicyTurn, ...]:
        return policy_turns(self._fields)

    @cached_property
    def _versions(self) -> dict[int, str]:
        return shown_versions(self._policy_turns, self._conversation)

    @cached_property
    def _conversation(self) -> RowConversation:
        return RowConversation(self._fields)


_WITH_TOKENS = (rows.TOKENS, rows.TURNS, rows.RESPONSE)
_ID_FIELD = f'"{SAMPLED_IDS}"'.encode()


def _has_tokens(fields: Fields) -> bool:
    """Whether a row has tokens: those of a collection, or on the items of a response."""
    if is_present(fields.get(rows.TOKENS)):
        return True
    response = fields.get(rows.RESPONSE)
    return response is not None and _ID_FIELD in bytes(response)


def _name(summary: RecordSummary) -> str:
    if summary.task is None:
        return "Rollout"
    repeat = "" if summary.repeat is None else f", repeat {summary.repeat}"
    return f"Task {summary.task}{repeat}"


_PROMPT = (PARAMS, MESSAGES)
_WINDOW = 1 << 20


class RowDocument(FieldsDocument):
    """A line that is a JSON object."""

    def __init__(self, record: bytes, context: DocumentContext, summary: RecordSummary) -> None:
        """Raises ValueError if the record is not a row."""
        super().__init__(context, summary, len(record))
        self._record = _in_utf8(record)
        self._own = _own_fields(self._record)

    def row(self) -> bytes:
        return self._record.strip()

    @cached_property
    def _fields(self) -> Fields:
        if any(is_present(self._own.get(name)) for name in _PROMPT):
            return self._own
        return dict(self._own) | _prompt_of(self._input_fields() or {})


def _prompt_of(asked: Fields) -> dict[str, msgspec.Raw]:
    """The prompt of an input row as a field, also if the row has it in `messages`."""
    params, messages = asked.get(PARAMS), asked.get(MESSAGES)
    if params is not None and is_present(params):
        return {PARAMS: params}
    if messages is not None and is_present(messages):
        return {PARAMS: raw_of({"input": messages})}
    return {}


def _own_fields(record: bytes) -> Fields:
    """The undecoded fields of a line. Raises ValueError if it is not an object."""
    try:
        return fields_of_record(record)
    except RecursionError as error:
        raise ValueError("the record is nested too deeply to be shown") from error
    except msgspec.ValidationError as error:
        raise ValueError("the record is not a JSON object") from error


def _in_utf8(record: bytes) -> bytes:
    """The record, with `\\ufffd` for invalid UTF-8."""
    try:
        for _ in _texts(record, "strict"):
            pass
    except UnicodeDecodeError:
        return b"".join(text.encode() for text in _texts(record, "replace"))
    return record


def _texts(record: bytes, errors: str) -> Iterator[str]:
    """Decode in windows, since the text of a long record may need four times the memory."""
    decoder, view = codecs.getincrementaldecoder("utf-8")(errors), memoryview(record)
    for start in range(0, len(record), _WINDOW):
        yield decoder.decode(view[start : start + _WINDOW])
    yield decoder.decode(b"", final=True)


TITLE = "Unreadable record"


class UnreadableDocument(RolloutDocument):
    """The document of a line that is not a record: where it is, and how it starts."""

    def __init__(self, summary: RecordSummary, unreadable: UnreadableView) -> None:
        super().__init__(summary, len(unreadable.text))
        self._unreadable = unreadable

    def view(self) -> RolloutView:
        unreadable = self._unreadable
        return RolloutView(
            summary=self._summary,
            title=self._summary.facts.title,
            bytes=unreadable.bytes,
            sections=(SectionView(TITLE, tuple(_fields(unreadable))),),
            unreadable=unreadable,
        )

    def raw(self, path: str) -> bytes:
        """Raises ValueError: the line is not a record."""
        raise ValueError(self._unreadable.problem)

    def row(self) -> bytes:
        """Raises ValueError: the line is not a record."""
        raise ValueError(self._unreadable.problem)


def _fields(unreadable: UnreadableView) -> list[FieldView]:
    numbers = {"line": unreadable.line, "byte": unreadable.offset, "bytes": unreadable.bytes}
    shown = {"problem": unreadable.problem, **{name: f"{n:,}" for name, n in numbers.items()}}
    shown["starts with"] = unreadable.text
    return [FieldView(name, Text(text, len(text))) for name, text in shown.items()]
