"""Ranges of difficulty."""

import pytest

from webgym.tasks import Difficulty
from webgym.utils.rollout_sampler import DifficultyRange


@pytest.mark.parametrize(
    ("written", "first", "last"),
    [("1-3", 1, 3), ("5", 5, 5), ("7+", 7, None), (" Easy ", 1, 3), ("hard", 7, None)],
)
def test_a_range_is_read_as_people_write_it(written: str, first: int, last: int | None) -> None:
    assert DifficultyRange.of(written) == DifficultyRange(first, last)


@pytest.mark.parametrize("written", ["", "3-1", "0", "0-2", "-1", "1-", "1-3+", "simple", "1.5"])
def test_anything_else_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match="not a difficulty range"):
        DifficultyRange.of(written)


@pytest.mark.parametrize("number", range(1, 12))
def test_named_ranges_are_those_of_the_tasks(number: int) -> None:
    holding = [name for name in Difficulty if DifficultyRange.of(name).holds(number)]
    assert holding == [Difficulty.of(number)]


@pytest.mark.parametrize(
    ("one", "other", "overlap"),
    [("1-3", "4-6", False), ("1-3", "3", True), ("2", "1+", True), ("7+", "9+", True)],
)
def test_overlapping_is_mutual(one: str, other: str, overlap: bool) -> None:
    ranges = DifficultyRange.of(one), DifficultyRange.of(other)
    assert ranges[0].overlaps(ranges[1]) == ranges[1].overlaps(ranges[0]) == overlap
