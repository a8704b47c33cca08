"""What is shown of a line that is no record: where it is, what is wrong, and how it begins."""

from rollgym.viewer.summary import Summary
from rollgym.viewer.view import (
    Field,
    Picture,
    RolloutView,
    Section,
    Step,
    Text,
    Turn,
    Unreadable,
)

TITLE = "What cannot be read"


class UnreadableDocument:
    """A `Document` that has nothing but its beginning."""

    def __init__(self, summary: Summary, told: Unreadable) -> None:
        self._summary = summary
        self._told = told

    @property
    def size(self) -> int:
        return len(self._told.text)

    def view(self) -> RolloutView:
        told = self._told
        return RolloutView(
            summary=self._summary,
            title=self._summary.facts.title,
            bytes=told.bytes,
            sections=(Section(TITLE, tuple(_fields(told))),),
            unreadable=told,
        )

    def turns(self, start: int, count: int) -> list[Turn]:
        return []

    def steps(self, start: int, count: int) -> list[Step]:
        return []

    def raw(self, path: str) -> bytes:
        """Raises ValueError: it is no JSON."""
        raise ValueError(self._told.problem)

    def image(self, path: str) -> Picture:
        raise KeyError(path)

    def find(self, text: str) -> tuple[list[int], list[int]]:
        return [], []

    def row(self) -> bytes:
        """Raises ValueError: it is no row."""
        raise ValueError(self._told.problem)


def _fields(told: Unreadable) -> list[Field]:
    numbers = {"line": told.line, "byte": told.offset, "bytes": told.bytes}
    shown = {"problem": told.problem, **{name: f"{n:,}" for name, n in numbers.items()}}
    shown["begins with"] = told.text
    return [Field(name, Text(text, len(text))) for name, text in shown.items()]
