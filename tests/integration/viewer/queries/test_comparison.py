from collections.abc import Iterator

import msgspec
import pytest

from rollgym.viewer.errors import RequestError
from rollgym.viewer.queries.comparison import (
    COMPARISON_SORTS,
    ComparedSource,
    ComparisonQuery,
    compare_tasks,
)
from tests.integration.viewer.queries.databases import Rows


@pytest.fixture
def sides() -> Iterator[tuple[ComparedSource, ComparedSource]]:
    """Tasks a to f: improved, regressed, same, only left, only right, never judged on the right."""
    made = Rows(), Rows()
    rewards: dict[str, tuple[list[float | None], list[float | None]]] = {
        "a": ([0.0, 0.5], [1.0]),
        "b": ([1.0], [0.5]),
        "c": ([0.1, 0.2], [0.2, 0.1]),
        "d": ([1.0], []),
        "e": ([], [1.0]),
        "f": ([1.0], [None]),
    }
    for key, both in rewards.items():
        for rows, its in zip(made, both, strict=True):
            for reward in its:
                rows.add(
                    1 + rows.connection.execute("SELECT count(*) FROM entry").fetchone()[0],
                    task=ord(key),
                    task_key=key,
                    title=f"Task {key}",
                    reward=reward,
                    success=None if reward is None else int(reward == 1),
                )
    yield (
        ComparedSource("l", "Left", made[0].connection),
        ComparedSource("r", "Right", made[1].connection),
    )
    for rows in made:
        rows.connection.close()


def test_tasks_are_joined_by_their_key(sides: tuple[ComparedSource, ComparedSource]) -> None:
    found = msgspec.json.decode(msgspec.json.encode(compare_tasks(*sides, ComparisonQuery())))
    assert found["left"] == {
        "id": "l",
        "title": "Left",
        "tasks": 5,
        "mean": pytest.approx(3.8 / 7),
    }
    assert found["counts"] == {
        "improved": 1,
        "regressed": 1,
        "same": 1,
        "left_only": 1,
        "right_only": 1,
        "unknown": 1,
    }
    assert [(task["task_key"], task["change"]) for task in found["tasks"]] == [
        *(("a", "improved"), ("b", "regressed"), ("c", "same")),
        *(("d", "left_only"), ("e", "right_only"), ("f", "unknown")),
    ]
    assert found["tasks"][0] == {
        "task_key": "a",
        "title": "Task a",
        "delta": 0.75,
        "change": "improved",
        "left": {
            "task": 97,
            "mean": 0.25,
            "successes": 0,
            "judged": 2,
            "rollouts": 2,
            "first": "0-1",
        },
        "right": {
            "task": 97,
            "mean": 1.0,
            "successes": 1,
            "judged": 1,
            "rollouts": 1,
            "first": "0-1",
        },
    }
    assert (found["tasks"][3]["right"], found["tasks"][4]["title"]) == (None, "Task e")
    assert found["tasks"][5]["delta"] is None


def test_a_page_has_what_is_asked_for(sides: tuple[ComparedSource, ComparedSource]) -> None:
    for query, keys in [
        ({"change": ["improved", "unknown"]}, "af"),
        ({"sort": ["delta"]}, "bcadef"),
        ({"sort": ["delta"], "order": ["desc"]}, "acbdef"),
        ({"sort": ["left"]}, "cabdfe"),
        ({"sort": ["right"], "order": ["desc"]}, "aebcdf"),
        ({"sort": ["title"], "order": ["desc"], "limit": ["2"]}, "fe"),
        ({"offset": ["4"]}, "ef"),
    ]:
        found = compare_tasks(*sides, ComparisonQuery.of(query))
        assert "".join(task.task_key for task in found.tasks) == keys


def test_several_indexes_of_one_key_are_one_task(
    sides: tuple[ComparedSource, ComparedSource],
) -> None:
    left, right = sides
    right.connection.execute("UPDATE entry SET task_key = 'a' WHERE task_key = 'b'")
    (task,) = (
        each for each in compare_tasks(left, right, ComparisonQuery()).tasks if each.task_key == "a"
    )
    assert task.right is not None
    assert (task.right.mean, task.right.rollouts, task.right.first) == (0.75, 2, "0-1")


def test_what_means_nothing_is_reported() -> None:
    with pytest.raises(RequestError, match="did you mean 'improved'"):
        ComparisonQuery.of({"change": ["improve"]})
    with pytest.raises(RequestError, match=f"one of {', '.join(COMPARISON_SORTS)}"):
        ComparisonQuery.of({"sort": ["reward"]})
