"""Drawing tasks: reproducible, without repetition before need, and as the ratio says."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.webgym.utils.tables import table_of, table_of_difficulties
from webgym.utils.rollout_sampler import RolloutSampler, SamplerSettings, SamplingError, first_tasks

DIFFICULTIES = st.lists(st.integers(1, 9), min_size=1, max_size=40)


def sampler(**settings: Any) -> RolloutSampler:
    return RolloutSampler(SamplerSettings(**settings))


def ratio(size: int = -1, **weights: float) -> RolloutSampler:
    return sampler(sampler="ratio", size=size, difficulty_ratio=weights)


def test_the_same_seed_draws_the_same_in_every_process() -> None:
    # Written down, because another process must come to it too.
    draw = sampler(size=6).draw(table_of_difficulties([1] * 20), seed=7, iteration=2)
    assert draw.positions == (5, 3, 11, 18, 10, 6)


def test_another_seed_and_another_iteration_draw_other_tasks() -> None:
    tasks = table_of_difficulties([1] * 200)
    draws = [
        sampler(size=20).draw(tasks, seed, iteration).positions
        for seed, iteration in [(0, 0), (1, 0), (0, 1)]
    ]
    assert len(set(draws)) == 3


def test_a_sample_that_is_larger_than_its_pool_says_so() -> None:
    tasks = table_of_difficulties([1, 1, 5])
    (note,) = sampler(size=5).draw(tasks, seed=0, iteration=0).notes
    assert note == "2 of 5 tasks are repeated, because fewer tasks are available"
    assert sampler(size=3).draw(tasks, seed=0, iteration=0).notes == ()


@given(DIFFICULTIES, st.integers(1, 130), st.integers(0, 5))
def test_nothing_is_drawn_again_before_everything_was(
    difficulties: list[int], size: int, seed: int
) -> None:
    draw = sampler(size=size).draw(table_of_difficulties(difficulties), seed, 0)
    times = Counter(draw.positions)
    often = [times[place] for place in range(len(difficulties))]
    assert len(draw.positions) == size
    assert max(often) - min(often) <= 1


@given(DIFFICULTIES)
def test_minus_one_draws_every_task_once(difficulties: list[int]) -> None:
    draw = sampler().draw(table_of_difficulties(difficulties), 0, 0)
    assert sorted(draw.positions) == list(range(len(difficulties)))


@given(DIFFICULTIES, st.integers(1, 60))
def test_harder_tasks_come_first(difficulties: list[int], size: int) -> None:
    draw = sampler(size=size).draw(table_of_difficulties(difficulties), 0, 0)
    drawn = [difficulties[place] for place in draw.positions]
    assert drawn == sorted(drawn, reverse=True)


def test_a_ratio_of_difficulties_is_kept_exactly() -> None:
    difficulties = [1, 2, 3, 4, 5, 6, 7, 8, 9] * 20
    draw = ratio(64, **{"1-3": 2, "4-6": 1, "hard": 1}).draw(
        table_of_difficulties(difficulties), 0, 0
    )
    drawn = Counter((difficulties[place] - 1) // 3 for place in draw.positions)
    assert drawn == {0: 32, 1: 16, 2: 16}
    assert draw.notes == ()


def test_a_ratio_of_domains_is_kept_exactly() -> None:
    tasks = table_of((1, ("Shopping", "News")[place % 2], "a.example") for place in range(60))
    by_domain = sampler(sampler="ratio", size=9, domain_ratio={"Shopping": 2, "News": 1})
    drawn = Counter(tasks.domain(place) for place in by_domain.draw(tasks, 0, 0).positions)
    assert drawn == {"Shopping": 6, "News": 3}


def test_the_share_of_an_empty_part_goes_to_the_others_and_is_told() -> None:
    draw = ratio(8, **{"1-3": 1, "4-6": 1, "7+": 2}).draw(table_of_difficulties([1, 5] * 9), 0, 0)
    assert len(draw.positions) == 8
    assert Counter(place % 2 for place in draw.positions) == {0: 4, 1: 4}
    assert draw.notes == ("no task is in difficulty 7+: its share goes to the others",)


def test_tasks_outside_of_the_ratio_are_never_drawn_and_counted() -> None:
    draw = ratio(**{"4-6": 1, "1": 0}).draw(table_of_difficulties([1, 5, 9, 5]), 0, 0)
    assert sorted(draw.positions) == [1, 3]
    assert draw.notes == ("1 task(s) match no part of the ratio and are never sampled",)


@given(DIFFICULTIES, st.integers(1, 30))
def test_what_is_drawn_from_a_part_does_not_depend_on_the_other_parts(
    difficulties: list[int], size: int
) -> None:
    tasks = table_of_difficulties([*difficulties, 2, 8])
    alone = ratio(size, **{"1-5": 1}).draw(tasks, 0, 0).positions
    beside = ratio(2 * size, **{"1-5": 1, "6+": 1}).draw(tasks, 0, 0).positions
    assert [place for place in beside if tasks.difficulty(place) <= 5] == list(alone)


def test_tasks_of_blocked_domains_are_left_out_and_counted() -> None:
    tasks = table_of(
        (1, "Shopping", f"https://www.{name}.example/shop") for name in ("a", "b", "a", "c")
    )
    draw = sampler().draw(tasks, 0, 0, blocked=frozenset({"a.example", "z.example"}))
    assert sorted(draw.positions) == [1, 3]
    assert draw.blocked == {"a.example": 2}


def test_where_every_domain_is_blocked_the_message_names_them() -> None:
    tasks = table_of([(1, "Shopping", "https://a.example/")])
    with pytest.raises(SamplingError, match=r"all 1 training tasks.*\(a\.example\)"):
        sampler().draw(tasks, 0, 0, blocked=frozenset({"a.example"}))


def test_where_no_part_has_a_task_there_is_nothing_to_draw() -> None:
    with pytest.raises(SamplingError, match="no training task is available.*difficulty 7"):
        ratio(**{"7+": 1}).draw(table_of_difficulties([1, 2]), 0, 0)


def test_settings_that_contradict_themselves_are_refused() -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"size": 0}, "train_tasks_rollout_size=0"),
        ({"size": -2}, "-1 for all"),
        ({"sampler": "ratio"}, "either difficulty_ratio or domain_ratio"),
        ({"difficulty_ratio": {"1": 1}}, "train_tasks_sampler=ratio"),
        (
            {"sampler": "ratio", "difficulty_ratio": {"1": 1}, "domain_ratio": {"News": 1}},
            "either difficulty_ratio or domain_ratio",
        ),
        ({"sampler": "ratio", "difficulty_ratio": {"1-3": 1, "3+": 1}}, "'1-3' and '3\\+' overlap"),
        (
            {"sampler": "ratio", "difficulty_ratio": {"simple": 1}},
            "'simple' is not a difficulty range",
        ),
        (
            {"sampler": "ratio", "difficulty_ratio": {"1": -1}},
            "difficulty_ratio: -1 is not a weight",
        ),
        (
            {"sampler": "ratio", "domain_ratio": {"News": 0}},
            "domain_ratio: .*one weight must be above 0",
        ),
    ]
    for settings, said in cases:
        with pytest.raises(SamplingError, match=said):
            sampler(**settings)


def test_test_tasks_are_the_first_of_the_file_in_its_order() -> None:
    tasks = table_of_difficulties([1, 9, 3])
    assert first_tasks(tasks).positions == (0, 1, 2)
    assert first_tasks(tasks, 2).positions == (0, 1)


def test_more_test_tasks_than_there_are_means_all_and_is_told() -> None:
    draw = first_tasks(table_of_difficulties([1, 1]), 5)
    assert draw.positions == (0, 1)
    assert draw.notes == ("the test file has only 2 of 5 tasks",)


def test_a_test_of_no_tasks_is_refused() -> None:
    with pytest.raises(SamplingError, match="test_tasks_rollout_size=0"):
        first_tasks(table_of_difficulties([1]), 0)
