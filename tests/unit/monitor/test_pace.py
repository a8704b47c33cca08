import pytest

from rollgym.monitor.progress import RATE_WINDOW, RecentRate


def test_the_rate_is_that_of_the_last_half_minute() -> None:
    pace = RecentRate(100.0)
    assert pace.rate(100.0, 0) is None
    assert pace.rate(110.0, 0) is None
    assert RecentRate(100.0).rate(102.0, 10) == pytest.approx(5.0)
    pace = RecentRate(0.0)
    total = 0
    for second in range(1, 200):
        total += 100 if second <= 100 else 2
        pace.mark(float(second), total)
    assert pace.rate(199.0, total) == pytest.approx(2.0)


def test_the_rate_falls_while_nothing_ends() -> None:
    pace = RecentRate(0.0)
    pace.mark(10.0, 100)
    before, after = pace.rate(10.0, 100), pace.rate(20.0, 100)
    assert before is not None
    assert after is not None
    assert after < before


def test_marks_are_bounded_however_many_batches_come() -> None:
    pace = RecentRate(0.0)
    for tick in range(100_000):
        pace.mark(tick * 0.05, tick)
    assert len(pace._marks) <= RATE_WINDOW + 2
