import random

from rollgym.metrics.distribution import NAME_LIMIT, ByName, Distribution

NAMES = [f"score of task {number:04}" for number in range(NAME_LIMIT + 50)]


def measures_of(names: list[str]) -> ByName[Distribution]:
    measures = ByName(Distribution)
    for name in names:
        measures.add({name: 1.0})
    return measures


def test_of_too_many_names_the_first_are_kept_in_full_whatever_their_order() -> None:
    records = NAMES * 3
    random.Random(7).shuffle(records)
    measures = measures_of(records)
    summary = dict(measures.items())
    assert measures.truncated
    assert list(summary) == NAMES[:NAME_LIMIT]
    assert {distribution.count for distribution in summary.values()} == {3}


def test_shards_with_too_many_names_together_keep_the_same_ones() -> None:
    merged, other = measures_of(NAMES[100:]), measures_of(NAMES[:200])
    merged.merge(other)
    assert merged.truncated
    exactly = measures_of(NAMES[: NAME_LIMIT // 2])
    exactly.merge(measures_of(NAMES[:NAME_LIMIT]))
    assert not exactly.truncated
    assert [(name, each.summary()) for name, each in merged.items()] == [
        (name, each.summary()) for name, each in measures_of(NAMES[100:] + NAMES[:200]).items()
    ]
