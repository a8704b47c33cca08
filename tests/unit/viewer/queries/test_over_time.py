from rollgym.viewer.queries.charts import MOST_POINTS, TimePoint, over_time


def test_portions_of_time_are_equal_and_empty_ones_are_told() -> None:
    started = [second * 1_000_000 for second in (100, 100, 110, 159)]
    found = over_time(range(4), started, [1, 0, None, 1], [1.0, 0.0, None, 1.0])
    assert found.by == "time"
    assert len(found.points) == MOST_POINTS
    after = found.points[1].begin
    assert found.points[0] == TimePoint(100.0, after, 100.0, after - 1e-6, 2, 1, 2, 0.5)
    assert found.points[-1].rollouts == 1
    assert sum(point.rollouts for point in found.points) == 4
    assert [point.mean_reward for point in found.points if point.rollouts] == [0.5, None, 1.0]


def test_one_moment_is_one_portion() -> None:
    found = over_time([1, 2], [5, 5], [1, 0], [1.0, 0.0])
    assert [point.rollouts for point in found.points] == [2]


def test_without_times_the_records_are_divided() -> None:
    found = over_time(range(100), [None] * 100, [1] * 50 + [0] * 50, [1.0] * 50 + [0.0] * 50)
    assert found.by == "order"
    assert [(point.begin, point.end) for point in found.points[:2]] == [(1, 1), (2, 3)]
    assert found.points[-1].end == 100
    assert sum(point.rollouts for point in found.points) == 100
    assert (found.points[0].mean_reward, found.points[-1].mean_reward) == (1.0, 0.0)


def test_entries_without_a_time_are_left_out_where_most_have_one() -> None:
    found = over_time([1, 2, 3], [1, None, 2], [1, 1, 1], [None, None, None])
    assert sum(point.rollouts for point in found.points) == 2


def test_nothing_has_no_points() -> None:
    assert over_time([], [], [], []).points == ()
