from http import HTTPStatus

import msgspec
import pytest

from rollgym.viewer.errors import RequestError
from rollgym.viewer.queries.filter import SORTS, Filter
from rollgym.viewer.queries.listing import Orders, all_entries, listing, neighbours
from rollgym.viewer.source import EntryId
from tests.integration.viewer.queries.databases import Rows


def records(rows: Rows, **query: str | list[str]) -> list[int]:
    given = {name: [value] if isinstance(value, str) else value for name, value in query.items()}
    found = listing(rows.connection, Filter.of(given), Orders())
    shown = [EntryId.parse(entry.id).record for entry in found.entries]
    if "limit" not in query and "offset" not in query:
        assert found.total == len(shown)
        assert found.unreadable == shown.count(8)
        assert list(all_entries(rows.connection, Filter.of(given))) == shown
    return shown


def test_a_filter_shows_what_fits(run: Rows) -> None:
    cases: list[tuple[dict[str, str | list[str]], list[int]]] = [
        ({}, [1, 2, 4, 5, 6, 7, 8]),
        ({"status": "retried"}, [3]),
        ({"status": ["failed", "retried"]}, [3, 6]),
        ({"status": "unreadable"}, [8]),
        ({"success": "true"}, [1, 5]),
        ({"success": "false"}, [2, 4]),
        ({"kind": "tool"}, [6]),
        ({"kind": "tool", "status": ["failed", "retried"]}, [3, 6]),
        ({"cause": "1"}, [6]),
        ({"tool": "search"}, [1, 4]),
        ({"tool": ["search", "open"]}, [1, 4, 5]),
        ({"task": "1", "repeat": ["0", "2"]}, [5, 7]),
        ({"agent": "simple", "domain": "maths", "model": "small", "ending": "limit"}, [2]),
        ({"min_reward": "0.5"}, [1, 4, 5]),
        ({"min_reward": "0.5", "max_reward": "0.5"}, [4]),
        ({"max_steps": "4"}, [1, 4]),
        ({"min_tokens": "15"}, [1, 2]),
        ({"max_tokens": "15"}, [1]),
        ({"min_output_tokens": "1"}, [1]),
        ({"min_difficulty": "5"}, [5, 6, 7]),
        ({"min_started": "104", "max_started": "104.5"}, [5]),
        ({"task": "9"}, []),
    ]
    for query, shown in cases:
        assert records(run, **query) == shown


def test_equal_values_are_in_the_order_of_records_and_missing_ones_last(run: Rows) -> None:
    for sort, rising, falling in [
        ("record", [1, 2, 4, 5, 6, 7, 8], [8, 7, 6, 5, 4, 2, 1]),
        ("reward", [2, 4, 1, 5, 6, 7, 8], [1, 5, 4, 2, 6, 7, 8]),
        ("steps", [1, 4, 2, 5, 6, 7, 8], [5, 2, 1, 4, 6, 7, 8]),
        ("tokens", [1, 2, 4, 5, 6, 7, 8], [2, 1, 4, 5, 6, 7, 8]),
        ("title", [8, 1, 2, 4, 5, 6, 7], [5, 6, 7, 1, 2, 4, 8]),
        ("field.judge", [2, 1, 4, 5, 6, 7, 8], [1, 2, 4, 5, 6, 7, 8]),
        ("field.score.final", [5, 1, 2, 4, 6, 7, 8], [1, 5, 2, 4, 6, 7, 8]),
    ]:
        assert records(run, sort=sort) == rising
        assert records(run, sort=sort, order="desc") == falling


def test_pages_together_are_the_whole_list(run: Rows) -> None:
    for sort in SORTS:
        whole = records(run, sort=sort, order="desc")
        pages = [
            records(run, sort=sort, order="desc", limit="3", offset=str(offset))
            for offset in (0, 3, 6, 9)
        ]
        assert [record for page in pages for record in page] == whole


def test_pages_far_down_are_cut_from_the_same_order(rows: Rows) -> None:
    for record in range(1, 3001):
        rows.add(record, reward=float(record % 7))
    wanted = Filter(sort="reward", descending=True, limit=500)
    orders = Orders()
    shown = []
    for offset in range(0, 3000, 500):
        page = listing(rows.connection, msgspec.structs.replace(wanted, offset=offset), orders)
        assert page.total == 3000
        shown += [EntryId.parse(entry.id).number for entry in page.entries]
    assert shown == list(all_entries(rows.connection, wanted))
    assert orders.known(rows.connection, wanted) is not None


def test_records_are_sorted_and_chosen_by_their_length(rows: Rows) -> None:
    for record, length in enumerate((30, 10, 20), start=1):
        rows.add(record, length=length)
    assert records(rows, sort="bytes") == [2, 3, 1]
    assert records(rows, sort="bytes", order="desc", min_bytes="20") == [1, 3]


def test_an_order_is_made_again_when_the_index_changed(run: Rows) -> None:
    orders, wanted = Orders(), Filter(sort="reward")
    assert len(orders.of(run.connection, wanted)) == 7
    run.add(9, reward=0.75)
    run.changed()
    assert orders.known(run.connection, wanted) is None
    assert listing(run.connection, wanted, orders).total == 8
    assert len(orders.of(run.connection, wanted)) == 8


def test_an_entry_is_shown_with_everything_that_is_known(run: Rows) -> None:
    first, *_, last = listing(run.connection, Filter(), Orders()).entries
    assert msgspec.json.decode(msgspec.json.encode(first)) == {
        "id": "0-1",
        "status": "completed",
        "is_outcome": True,
        "task": 0,
        "repeat": 0,
        "attempt": 1,
        "reward": 1.0,
        "success": True,
        "kind": None,
        "cause": None,
        "steps": 3,
        "tool_calls": 2,
        "input_tokens": 10,
        "output_tokens": 5,
        "seconds": 1.5,
        "started": 100.0,
        "model": "small",
        "ending": "answer",
        "agent": "simple",
        "domain": "maths",
        "difficulty": 2,
        "title": "Add",
        "detail": "",
        "fields": {"judge": "yes", "score.final": 3},
        "bytes": 10,
    }
    assert (last.status, last.success, last.title) == ("unreadable", None, "")
    (failed,) = listing(run.connection, Filter(status=("retried",)), Orders()).entries
    assert (failed.kind, failed.cause) == ("tool", "the server answered HTTP …")
    assert not failed.is_outcome


def test_a_search_restricts_every_filter(run: Rows) -> None:
    found = Filter(success=True).among([1, 2, 3])
    assert [entry.id for entry in listing(run.connection, found, Orders()).entries] == ["0-1"]
    assert listing(run.connection, Filter().among([]), Orders()).total == 0


def test_neighbours_are_those_of_the_list(run: Rows) -> None:
    for entry, previous, following, position in [
        ("0-1", "0-4", "0-5", 3),
        ("0-2", None, "0-4", 1),
        ("0-8", "0-7", None, 7),
    ]:
        found = neighbours(run.connection, Filter(sort="reward"), Orders(), EntryId.parse(entry))
        assert (found.previous, found.next) == (previous, following)
        assert (found.position, found.total) == (position, 7)


def test_an_entry_that_does_not_fit_has_no_neighbours(run: Rows) -> None:
    found = neighbours(run.connection, Filter(success=True), Orders(), EntryId(0, 2))
    assert (found.previous, found.next, found.position, found.total) == (None, None, None, 2)


def test_an_entry_that_is_not_there_is_reported(run: Rows) -> None:
    with pytest.raises(RequestError, match="no record 0-99") as refused:
        neighbours(run.connection, Filter(), Orders(), EntryId(0, 99))
    assert refused.value.status == HTTPStatus.NOT_FOUND
