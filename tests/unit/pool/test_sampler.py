"""Which rows groups are drawn from."""

import pytest

from rollgym.pool.settings import Order
from rollgym.pool.source import Sampler


def test_an_epoch_has_every_row_once_in_another_order_each_time() -> None:
    sampler = Sampler(20, seed=3)
    epochs = [[sampler.row(20 * epoch + place) for place in range(20)] for epoch in range(3)]
    assert all(sorted(epoch) == list(range(20)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 3


def test_the_row_of_a_group_depends_on_seed_and_number_only() -> None:
    first, again = Sampler(7, seed=1), Sampler(7, seed=1)
    numbers = [40, 3, 27, 0, 6, 13]
    rows = {number: first.row(number) for number in numbers}
    assert rows == {number: again.row(number) for number in sorted(numbers)}
    other = Sampler(7, seed=2)
    assert [other.row(each) for each in range(28)] != [first.row(each) for each in range(28)]


def test_rows_in_sequence() -> None:
    sampler = Sampler(3, seed=1, order=Order.SEQUENTIAL)
    assert [sampler.row(number) for number in range(7)] == [0, 1, 2, 0, 1, 2, 0]


def test_a_dataset_without_rows_is_refused() -> None:
    with pytest.raises(ValueError, match="no rows"):
        Sampler(0, seed=1)
