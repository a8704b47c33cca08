"""Ranges of difficulty."""

import pytest

from webgym.tasks.task import Difficulty
from webgym.utils.rollout_sampler import DifficultyRange


def test_a_range_is_read_as_people_write_it() -> None:
    cases: list[tuple[str, int, int | None]] = [
        ("1-3", 1, 3),
        ("5", 5, 5),
        ("7+", 7, None),
        (" Easy ", 1, 3),
        ("hard", 7, None),
    ]
    for written, first, last in cases:
        assert DifficultyRange.of(written) == DifficultyRange(first, last)


def test_anything_else_is_refused() -> None:
    cases: list[str] = ["", "3-1", "0", "0-2", "-1", "1-", "1-3+", "simple", "1.5"]
    for written in cases:
        with pytest.raises(ValueError, match="not a difficulty range"):
            DifficultyRange.of(written)


def test_named_ranges_are_those_of_the_tasks() -> None:
    for number in range(1, 12):
        holding = [name for name in Difficulty if DifficultyRange.of(name).holds(number)]
        assert holding == [Difficulty.of(number)]


def test_overlapping_is_mutual() -> None:
    cases: list[tuple[str, str, bool]] = [
        ("1-3", "4-6", False),
        ("1-3", "3", True),
        ("2", "1+", True),
        ("7+", "9+", True),
    ]
    for one, other, overlap in cases:
        ranges = DifficultyRange.of(one), DifficultyRange.of(other)
        assert ranges[0].overlaps(ranges[1]) == ranges[1].overlaps(ranges[0]) == overlap
