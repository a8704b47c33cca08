"""A browser that cannot be started is tried again, ever more rarely."""

from webgym.browser.pool.decisions import LONGEST_PAUSE_AFTER_DEATH, PROVEN_AGE, LaunchBackoff


def test_there_is_no_pause_before_the_first_start() -> None:
    assert LaunchBackoff().pause(0.0) == 0


def test_a_failure_is_remembered_and_followed_by_a_pause() -> None:
    launches = LaunchBackoff()
    launches.failed("no such file", now=100.0)
    assert launches.last_failure == "no such file"
    assert 0 < launches.pause(100.0) < 1
    assert launches.pause(130.0) == 0
    for _ in range(20):
        launches.failed("no such file", now=200.0)
    assert launches.pause(200.0) == 30


def test_a_browser_that_dies_young_counts_as_a_failed_start() -> None:
    launches = LaunchBackoff()
    launches.died(PROVEN_AGE - 1, "it crashed", now=100.0)
    assert launches.failures == 1
    launches.died(PROVEN_AGE, "it crashed", now=200.0)
    assert launches.failures == 1


def test_a_browser_started_since_that_lives_long_enough_ends_the_row_of_failures() -> None:
    launches = LaunchBackoff()
    launches.failed("no memory", now=100.0)
    launches.proved(PROVEN_AGE - 1, now=120.0)
    assert launches.failures == 1
    launches.proved(PROVEN_AGE, now=120.0)
    assert (launches.failures, launches.last_failure) == (0, None)


def test_an_old_browser_says_nothing_about_failures_since_it_was_started() -> None:
    launches = LaunchBackoff()
    launches.failed("no memory", now=100.0)
    launches.proved(500.0, now=120.0)
    assert launches.failures == 1


def test_browsers_that_die_together_count_once() -> None:
    launches = LaunchBackoff()
    for moment in (100.0, 100.1, 100.2):
        launches.died(3.0, "killed", now=moment)
    assert launches.failures == 1


def test_pauses_after_deaths_stay_short() -> None:
    launches = LaunchBackoff()
    for moment in range(100, 160, 3):
        launches.died(3.0, "killed", now=float(moment))
    assert launches.failures == 20
    assert launches.pause(157.0) == LONGEST_PAUSE_AFTER_DEATH
