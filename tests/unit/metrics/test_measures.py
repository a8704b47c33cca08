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
