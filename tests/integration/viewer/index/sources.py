"""Sources over files that a test writes, and what their indexes say."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rollgym.viewer.formats.rows import JOURNAL, ROLLOUTS
from rollgym.viewer.index.source_index import SourceIndex
from rollgym.viewer.source import RecordFormat, SourcePart, ViewerSource

PATIENCE = 60.0


def source(
    *paths: Path,
    kind: RecordFormat = ROLLOUTS,
    inputs: Path | None = None,
    path: Path | None = None,
) -> ViewerSource:
    parts = tuple(SourcePart(each, kind) for each in paths)
    return ViewerSource(
        id="s", title="s", kind="test", path=path or paths[0], parts=parts, inputs=inputs
    )


def run(directory: Path) -> ViewerSource:
    """A run directory with one journal."""
    journal, inputs = directory / "journal.jsonl", directory / "inputs.jsonl"
    return source(journal, kind=JOURNAL, inputs=inputs, path=directory)


@contextmanager
def opened(of: ViewerSource) -> Iterator[SourceIndex]:
    index = SourceIndex(of)
    index.open()
    try:
        yield index
    finally:
        index.close()


@contextmanager
def indexed(of: ViewerSource) -> Iterator[SourceIndex]:
    with opened(of) as index:
        assert index.extend(PATIENCE)
        yield index


def rows(index: SourceIndex, query: str, *values: object) -> list[tuple[Any, ...]]:
    with index.reading() as connection:
        return connection.execute(query, values).fetchall()


def column(index: SourceIndex, name: str) -> list[Any]:
    """One column of all entries, in their order."""
    return [value for (value,) in rows(index, f"SELECT {name} FROM entry ORDER BY id")]


def append(path: Path, text: bytes) -> None:
    with path.open("ab") as file:
        file.write(text)
