from math import floor

from hypothesis import given
from hypothesis import strategies as st

from rollgym.metrics.metrics import LONGEST_ATTEMPT, ActiveTime

spans = st.lists(st.tuples(st.floats(0, 20_000), st.floats(0, 8_000)), max_size=10)


def activity_of(marks: list[tuple[float, float]]) -> ActiveTime:
    activity = ActiveTime()
    for started, seconds in marks:
        activity.mark(started, seconds)
    return activity


@given(spans)
def test_each_second_that_any_attempt_touches_is_active_once(
    marks: list[tuple[float, float]],
) -> None:
    touched = {
        second
        for started, seconds in marks
        for second in range(floor(started), floor(started + seconds) + 1)
    }
    assert activity_of(marks).seconds == len(touched)


def test_gaps_instants_and_hours_are_counted() -> None:
    assert activity_of([(1_000.0, 9.5), (900_000.0, 4.5)]).seconds == 10 + 5
    assert activity_of([(1_000.25, 0.0)]).seconds == 1
    assert activity_of([(86_400.0 - 5_000, 10_000.0)]).seconds == 10_001


def test_an_absurd_duration_marks_a_week_at_most_and_a_negative_one_a_second() -> None:
    cases: list[float] = [0.0, 1.7e9, 1e308]
    for started in cases:
        assert activity_of([(started, 1e308)]).seconds <= LONGEST_ATTEMPT + 1
    for seconds in (-1e-9, -5.0, -1e308):
        assert activity_of([(1_000.0, seconds)]).seconds == 1
