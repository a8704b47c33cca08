"""A document over the fields of a row, wherever they come from.

The fields are windows on the record's bytes. Opening a document takes the row apart on its first
level; items of the conversation are decoded when their turns are asked for.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property, partial

import msgspec

from rollgym.rollouts.fields import METADATA
from rollgym.viewer.documents.conversation import Conversation
from rollgym.viewer.documents.failures import failure_of
from rollgym.viewer.documents.find import Needle
from rollgym.viewer.documents.images import picture_of
from rollgym.viewer.documents.pointer import names_in, value_at
from rollgym.viewer.documents.sections import sections_of
from rollgym.viewer.documents.span_turns import lead_to_turns
from rollgym.viewer.documents.timeline import timeline_of
from rollgym.viewer.documents.turns import Reader
from rollgym.viewer.documents.usage import usage_of
from rollgym.viewer.source import Context
from rollgym.viewer.summary import Summary
from rollgym.viewer.values import Fields, text_of
from rollgym.viewer.view import FailureView, Picture, RolloutView, Step, Timeline, Turn


class FieldsDocument(ABC):
    """Satisfies `Document`; who makes one says which row it is of."""

    def __init__(self, context: Context, summary: Summary, size: int) -> None:
        self._context = context
        self._summary = summary
        self._size = size

    @abstractmethod
    def row(self) -> bytes: ...

    @property
    @abstractmethod
    def _fields(self) -> Fields:
        """Those of the row that is shown."""

    @property
    def size(self) -> int:
        return self._size

    def view(self) -> RolloutView:
        summary, reader, failure = self._summary, self._reader(), failure_of(self._fields)
        return RolloutView(
            summary=summary,
            title=summary.facts.title or _name(summary),
            bytes=self._size,
            turns=len(self._conversation),
            prompt=tuple(
                reader.turn(item, index)
                for index, item in enumerate(self._conversation.prompt_items())
            ),
            failure=failure,
            timeline=self._timeline(failure),
            usage=usage_of(self._fields),
            sections=sections_of(
                self._fields, self._asked(), conversation=self._conversation.field
            ),
        )

    def turns(self, start: int, count: int) -> list[Turn]:
        reader = self._reader()
        return [reader.turn(item, index) for index, item in self._conversation.items(start, count)]

    def steps(self, start: int, count: int) -> list[Step]:
        """None: a row has turns."""
        return []

    def raw(self, path: str) -> bytes:
        if not path:
            return self.row()
        name, *names = names_in(path)
        return bytes(value_at(self._fields[name], names))

    def image(self, path: str) -> Picture:
        """Raises KeyError where there is no picture that is shown."""
        url = text_of(msgspec.Raw(self.raw(path))) if path else None
        try:
            return picture_of(url or "")
        except ValueError as error:
            raise KeyError(path) from error

    def find(self, text: str) -> tuple[list[int], list[int]]:
        if not text:
            return [], []
        needle, reader = Needle(text), self._reader(whole=True)
        found = [
            index
            for index, item in self._conversation.items(0, len(self._conversation))
            if needle.is_in(item.raw, partial(reader.turn, item, index))
        ]
        return found, []

    def _timeline(self, failure: FailureView | None) -> Timeline | None:
        timeline = timeline_of(self._fields.get(METADATA), self._summary.seconds)
        if timeline is None or not timeline.spans:
            return timeline
        model_failed = failure is not None and failure.kind.startswith("model_")
        return lead_to_turns(timeline, self._conversation.replies(), model_failed=model_failed)

    def _asked(self) -> Mapping[str, msgspec.Raw] | None:
        """The fields of the task's input row, where the source has it."""
        task = self._summary.task
        row = None if task is None else self._context.input_row(task)
        return None if row is None else row.fields

    def _reader(self, *, whole: bool = False) -> Reader:
        has_folder = self._context.images is not None
        return Reader(self._conversation.tool_of, has_folder=has_folder, whole=whole)

    @cached_property
    def _conversation(self) -> Conversation:
        return Conversation(self._fields)


def _name(summary: Summary) -> str:
    if summary.task is None:
        return "Rollout"
    repeat = "" if summary.repeat is None else f", repeat {summary.repeat}"
    return f"Task {summary.task}{repeat}"
