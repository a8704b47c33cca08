"""Files whose format says where their records are."""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from rollgym.store import StoreError
from rollgym.viewer.documents.row_document import RowDocument
from rollgym.viewer.source import DocumentContext, EntryId, FactsOf, RecordRange
from rollgym.viewer.summary import EntryStatus, RecordSummary
from rollgym.viewer.view import RolloutDocument
from tests.integration.viewer.index.sources import (
    PATIENCE,
    column,
    indexed,
    opened,
    source,
)
from tests.integration.viewer.rollouts import write

END = b"END"


class Blocks:
    """Blocks of eight bytes, and a mark at the end without which the file is not whole."""

    name = "blocks"
    by_lines = False

    def places(self, path: Path) -> Iterator[RecordRange]:
        content = path.read_bytes()
        yield from (RecordRange(start, 8) for start in range(0, len(content) - len(END), 8))
        if not content.endswith(END):
            raise StoreError(f"{path} is not whole")

    def summary(self, record: bytes, facts_of: FactsOf) -> RecordSummary:
        return RecordSummary(status=EntryStatus.COMPLETED, task=int(record), repeat=0)

    def document(self, record: bytes, context: DocumentContext) -> RolloutDocument:
        return RowDocument(
            msgspec.json.encode({"block": record}), context, RecordSummary(status=EntryStatus.INPUT)
        )


BLOCKS = Blocks()


def blocks(*tasks: int) -> list[bytes]:
    return [b"%08d" % task for task in tasks]


def test_records_are_where_the_format_says(tmp_path: Path) -> None:
    path = write(tmp_path / "a.blocks", [*blocks(3, 4), b"no task.", END])
    with indexed(source(path, kind=BLOCKS)) as index:
        assert column(index, "task") == [3, 4, None]
        assert column(index, "status") == ["completed", "completed", "unreadable"]
        assert index.record(EntryId(0, 2)) == b"00000004"
        state = index.state()
        assert (state.read, state.ready) == (state.size, True)
    with opened(source(path, kind=BLOCKS)) as index:
        assert index.state() == state
        assert index.extend(PATIENCE)
        assert index.state() == state


def test_an_archive_that_was_changed_is_read_again(tmp_path: Path) -> None:
    path = write(tmp_path / "a.blocks", [*blocks(3, 4), END])
    with indexed(source(path, kind=BLOCKS)) as index:
        write(path, [*blocks(5, 4), END])
        assert index.extend(PATIENCE)
        assert column(index, "task") == [5, 4]
    write(path, [*blocks(6, 7, 8), END])
    with indexed(source(path, kind=BLOCKS)) as index:
        assert column(index, "task") == [6, 7, 8]


def test_an_archive_is_read_in_portions(tmp_path: Path) -> None:
    for number, closed in enumerate([False, True]):
        folder = tmp_path / str(number)
        folder.mkdir()
        of = source(write(folder / "a.blocks", [*blocks(*range(5)), END]), kind=BLOCKS)
        with opened(of) as index:
            assert not index.extend(0.0)
            assert column(index, "task") == [0]
            if not closed:
                assert index.extend(PATIENCE)
                assert column(index, "task") == [0, 1, 2, 3, 4]
        with indexed(of) as index:
            assert column(index, "task") == [0, 1, 2, 3, 4]


def test_of_a_broken_archive_what_can_be_read_is_shown_until_it_is_whole(tmp_path: Path) -> None:
    path = write(tmp_path / "a.blocks", [*blocks(1, 2), b"..."])
    with indexed(source(path, kind=BLOCKS)) as index:
        assert column(index, "task") == [1, 2]
        assert "is not whole" in index.state().problem
        version = index.state().version
        assert index.extend(PATIENCE)
        assert index.state().version == version
        write(path, [*blocks(1, 2), END])
        assert index.extend(PATIENCE)
        assert column(index, "task") == [1, 2]
        assert index.state().problem == ""
