"""Records to look at, and a source that knows what they do not say."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from rollgym.records import Row
from rollgym.viewer.documents.row_document import RowDocument
from rollgym.viewer.formats.facts import task_facts
from rollgym.viewer.summary import EntryStatus, RecordSummary, TaskFacts
from rollgym.viewer.view import PictureView, Text, TurnView

DONE = RecordSummary(status=EntryStatus.COMPLETED, task=0, repeat=0)
PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAUAAAAFCAYAAACNbyblAAAAHElEQVQI12P4//8/w38G"
    "IAXDIBKE0DHxgljNBAAO9TXL0Y4OHwAAAABJRU5ErkJggg=="
)
"""Five pixels wide and high."""


class Surroundings:
    """What a source knows: the rows of its tasks, and a folder of pictures."""

    def __init__(self, rows: Mapping[int, Row] | None = None, images: Path | None = None) -> None:
        self._rows = rows or {}
        self._images = images

    def input_row(self, task: int) -> Row | None:
        return self._rows.get(task)

    def facts(self, task: int) -> TaskFacts | None:
        row = self.input_row(task)
        return None if row is None else task_facts(row.fields)

    @property
    def images(self) -> Path | None:
        return self._images


def opened(row: Mapping[str, Any], context: Surroundings | None = None) -> RowDocument:
    return RowDocument(msgspec.json.encode(row), context or Surroundings(), DONE)


def turns(*output: object, context: Surroundings | None = None) -> list[TurnView]:
    """The turns of a row with this output."""
    return opened({"output": output}, context).turns(0, 1_000)


def texts(turn: TurnView) -> list[str]:
    return [part.text for part in turn.parts if isinstance(part, Text)]


def images(turn: TurnView) -> list[PictureView]:
    return [part for part in turn.parts if isinstance(part, PictureView)]
