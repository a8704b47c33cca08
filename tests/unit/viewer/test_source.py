import pytest

from rollgym.viewer.source import EntryId


def test_an_id_can_be_written_and_read() -> None:
    for entry in [EntryId(0, 1), EntryId(3, 17), EntryId(12, 2**32 - 1)]:
        assert EntryId.parse(str(entry)) == entry
        assert EntryId.of(entry.number) == entry


def test_ids_are_ordered_as_the_records_are() -> None:
    assert EntryId(0, 2**32 - 1).number < EntryId(1, 1).number
    assert EntryId(0, 17).number == 17


def test_what_is_no_id_is_rejected() -> None:
    for text in [
        "",
        "0",
        "0-",
        "-1",
        "0-0",
        "00-1",
        "0-01",
        "0-1 ",
        "\u0660-\u0661",
        "0-4294967296",
        "a-b",
        "0-1-2",
    ]:
        with pytest.raises(ValueError, match="is not the id of a record"):
            EntryId.parse(text)
