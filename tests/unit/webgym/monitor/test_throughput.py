import pytest

from webgym.monitor.roster import ENDS, EndRate


def test_nothing_can_be_told_before_the_first_end() -> None:
    assert EndRate(10.0).per_second(20.0) is None


def test_the_first_ends_count_from_the_start() -> None:
    throughput = EndRate(0.0)
    throughput.add(30.0)
    throughput.add(60.0)
    assert throughput.per_second(60.0) == pytest.approx(2 / 60)


def test_only_the_last_hundred_ends_count() -> None:
    throughput = EndRate(0.0)
    for second in range(1, 1000):
        throughput.add(float(second))
    for tick in range(1, ENDS + 1):
        throughput.add(999 + tick / 10)
    assert throughput.per_second(1009.0) == pytest.approx(10.0)


def test_the_rate_falls_while_nothing_ends() -> None:
    throughput = EndRate(0.0)
    throughput.add(1.0)
    assert throughput.per_second(100.0) == pytest.approx(0.01)
