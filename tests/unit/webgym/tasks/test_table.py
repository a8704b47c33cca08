"""The table that sampling goes by."""

from tests.unit.webgym.utils.tables import table_of


def test_every_task_keeps_its_own_numbers_and_names() -> None:
    table = table_of(
        [
            (1, "Shopping", "https://www.a.example/x"),
            (7, "News", "b.example"),
            (2, "Shopping", "http://A.example:8080/"),
        ]
    )
    assert len(table) == 3
    assert [table.difficulty(place) for place in range(3)] == [1, 7, 2]
    assert [table.domain(place) for place in range(3)] == ["Shopping", "News", "Shopping"]
    assert [table.host(place) for place in range(3)] == ["a.example", "b.example", "a.example"]


def test_a_difficulty_beyond_all_measure_is_the_hardest() -> None:
    table = table_of([(10**30, "", "a.example"), (2**32 - 2, "", "a.example")])
    assert table.difficulty(0) > table.difficulty(1)
