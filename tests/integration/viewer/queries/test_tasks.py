import msgspec
import pytest

from rollgym.viewer.queries.filter import Filter
from rollgym.viewer.queries.tasks import MOST_CELLS, TASK_SORTS, tasks
from tests.integration.viewer.queries.databases import Rows


def wanted(**query: str) -> Filter:
    return Filter.of({name: [value] for name, value in query.items()}, sorts=TASK_SORTS)


def test_a_task_has_its_repeats_as_cells(run: Rows) -> None:
    found = msgspec.json.decode(msgspec.json.encode(tasks(run.connection, wanted())))
    assert found["total"] == 2
    assert found["tasks"][1] == {
        "task": 1,
        "task_key": "k1",
        "title": "Browse",
        "domain": "maths",
        "difficulty": 5,
        "rollouts": 3,
        "mean": 1.0,
        "successes": 1,
        "judged": 1,
        "cells": [
            {"id": "0-5", "repeat": 0, "status": "completed", "reward": 1.0, "success": True},
            {"id": "0-6", "repeat": 1, "status": "failed", "reward": None, "success": None},
            {"id": "0-7", "repeat": 2, "status": "omitted", "reward": None, "success": None},
        ],
    }


@pytest.mark.parametrize(
    ("sort", "rising", "falling"),
    [
        ("task", [0, 1, 2, None], [2, 1, 0, None]),
        ("mean", [2, 0, 1, None], [1, 0, 2, None]),
        ("spread", [1, 2, 0, None], [0, 1, 2, None]),
        ("rollouts", [2, None, 0, 1], [0, 1, 2, None]),
        ("title", [0, 1, None, 2], [2, None, 1, 0]),
        ("successes", [2, None, 0, 1], [0, 1, 2, None]),
    ],
)
def test_tasks_are_sorted_and_those_without_the_number_come_last(
    run: Rows, sort: str, rising: list[int | None], falling: list[int | None]
) -> None:
    run.add(9, task=2, repeat=0, reward=0.25, success=0, title="Zero")
    run.add(10, task_key="by key", status="failed", title="Key")
    for order, expected in (("asc", rising), ("desc", falling)):
        found = tasks(run.connection, wanted(sort=sort, order=order))
        assert [line.task for line in found.tasks] == expected
        one_by_one = [
            tasks(run.connection, wanted(sort=sort, order=order, limit="1", offset=str(offset)))
            for offset in range(5)
        ]
        assert [line.task for page in one_by_one for line in page.tasks] == expected
        assert {page.total for page in one_by_one} == {4}


def test_only_what_fits_counts_and_has_cells(run: Rows) -> None:
    (line,) = tasks(run.connection, wanted(max_reward="0.5")).tasks
    assert (line.rollouts, line.mean, [cell.id for cell in line.cells]) == (2, 0.25, ["0-2", "0-4"])


def test_a_task_without_an_index_goes_by_its_key(rows: Rows) -> None:
    rows.add(1, task_key="a", reward=1.0)
    rows.add(2, task_key="a", reward=0.0)
    rows.add(3)
    (line,) = tasks(rows.connection, wanted()).tasks
    assert (line.task, line.task_key, line.rollouts, len(line.cells)) == (None, "a", 2, 2)


def test_tasks_without_an_index_are_in_the_order_in_which_they_appear(rows: Rows) -> None:
    for record, key in enumerate(("b", "c", "a", "b"), start=1):
        rows.add(record, task_key=key)
    rows.add(5, task=10, task_key="z")
    rows.add(6, task=9, task_key="y")
    found = tasks(rows.connection, wanted()).tasks
    assert [line.task_key for line in found] == ["y", "z", "b", "c", "a"]
    turned = tasks(rows.connection, wanted(order="desc")).tasks
    assert [line.task_key for line in turned] == ["z", "y", "a", "c", "b"]


def test_a_cell_tells_that_a_page_blocked_it(rows: Rows) -> None:
    rows.add(1, task=0, repeat=0, fields={"is_blocked": True})
    rows.add(2, task=0, repeat=1, fields={"is_blocked": False})
    rows.add(3, task=0, repeat=2, fields={"is_blocked": "yes"})
    (line,) = tasks(rows.connection, wanted()).tasks
    assert [cell.blocked for cell in line.cells] == [True, False, False]


def test_there_are_only_so_many_cells(rows: Rows) -> None:
    for record in range(1, MOST_CELLS + 10):
        rows.add(record, task=0, repeat=record)
    (line,) = tasks(rows.connection, wanted()).tasks
    assert (line.rollouts, len(line.cells)) == (MOST_CELLS + 9, MOST_CELLS)
