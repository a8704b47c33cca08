import pytest

from rollgym.viewer.access import is_loopback
from rollgym.viewer.errors import PageError
from rollgym.viewer.index import Columns, Head, LineKind
from rollgym.viewer.selection import Filter, Overview, lines_of_task


@pytest.fixture
def columns() -> Columns:
    """Four rollouts of two tasks, a failure, a blank line and one that cannot be read."""
    made = Columns.empty()
    for task, reward in ((0, 1.0), (0, 0.0), (1, 0.5), (1, 1.5)):
        made.append(0, LineKind.ROW, Head(task, 0, reward))
    made.append(0, LineKind.ROW, Head(1, 1))
    made.append(0, LineKind.BLANK, Head())
    made.append(0, LineKind.BAD, Head())
    return made


@pytest.mark.parametrize(
    ("query", "lines"),
    [
        ({}, [1, 2, 3, 4, 5, 7]),
        ({"success": "", "min_reward": " ", "task": "", "page": "3"}, [1, 2, 3, 4, 5, 7]),
        ({"success": "true"}, [1, 4]),
        ({"success": "false"}, [2, 3]),
        ({"min_reward": "0.5"}, [1, 3, 4]),
        ({"min_reward": "-1"}, [1, 2, 3, 4]),
        ({"task": "1"}, [3, 4, 5]),
        ({"task": "1", "success": "false"}, [3]),
        ({"task": "9"}, []),
    ],
)
def test_a_query_chooses_lines_and_can_be_made_again(
    columns: Columns, query: dict[str, str], lines: list[int]
) -> None:
    wanted = Filter.of(query)
    assert list(wanted.select(columns)) == lines
    assert Filter.of(wanted.query()) == wanted


@pytest.mark.parametrize(
    "query", [{"success": "perhaps"}, {"min_reward": "nan"}, {"min_reward": "x"}, {"task": "-1"}]
)
def test_a_filter_that_means_nothing_is_told(query: dict[str, str]) -> None:
    with pytest.raises(PageError, match="`success` is true or false"):
        Filter.of(query)


def test_the_overview_counts_only_what_is_known(columns: Columns) -> None:
    assert Overview.of(columns, Filter().select(columns)) == Overview(5, 1, 0.75, 0.5)
    assert Overview.of(columns, []) == Overview(0, 0, None, None)


def test_the_rollouts_of_a_task_are_found_up_to_a_limit(columns: Columns) -> None:
    assert lines_of_task(columns, 1, 10) == [3, 4, 5]
    assert lines_of_task(columns, 1, 2) == [3, 4]


@pytest.mark.parametrize(
    ("host", "own"),
    [
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.168.0.1", False),
        ("localhost.example.org", False),
    ],
)
def test_only_this_machine_reaches_a_loopback_address(host: str, own: bool) -> None:
    assert is_loopback(host) is own
