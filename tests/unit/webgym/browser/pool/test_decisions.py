"""Where sessions go, when browsers are started, recycled and ended: decisions without processes."""

from hypothesis import given
from hypothesis import strategies as st

from tests.cases import for_each
from webgym.browser.chromium.process_tree import ProcessInfo
from webgym.browser.pool.decisions import (
    MEGABYTE,
    BrowserLoad,
    BrowserState,
    EndReason,
    choose_browser,
    free_slots,
    launches_wanted,
    may_drain,
    renderers_to_end,
    retirement,
    should_end,
)
from webgym.browser.settings import BrowserSettings

SETTINGS = BrowserSettings(
    capacity=40,
    sessions_per_browser=16,
    browser_minutes=100 / 60,
    browser_sessions=50,
    browser_megabytes=1000,
    page_megabytes=600,
    drain_seconds=30.0,
)
RETIRING, DRAINING = BrowserState.RETIRING, BrowserState.DRAINING

loads = st.lists(
    st.builds(
        BrowserLoad,
        number=st.integers(1, 10**6),
        state=st.sampled_from(BrowserState),
        sessions=st.integers(0, 16),
        opened=st.integers(0, 60),
    ),
    max_size=6,
    unique_by=lambda load: load.number,
)


def test_a_session_goes_to_the_browser_with_the_fewest() -> None:
    assert (
        choose_browser(
            [BrowserLoad(1, sessions=3), BrowserLoad(2, sessions=1), BrowserLoad(3, sessions=2)],
            SETTINGS,
        )
        == 2
    )


def test_of_equals_the_oldest_browser_is_taken() -> None:
    assert choose_browser([BrowserLoad(2), BrowserLoad(1)], SETTINGS) == 1


def test_a_full_browser_gets_none() -> None:
    assert choose_browser([BrowserLoad(1, sessions=16)], SETTINGS) is None


def test_a_retiring_browser_is_the_last_resort() -> None:
    retiring = BrowserLoad(1, RETIRING)
    assert choose_browser([retiring, BrowserLoad(2, sessions=15)], SETTINGS) == 2
    assert choose_browser([retiring, BrowserLoad(2, sessions=16)], SETTINGS) == 1


def test_a_draining_browser_never_gets_one() -> None:
    assert choose_browser([BrowserLoad(1, DRAINING)], SETTINGS) is None


def test_the_capacity_counts_sessions_on_draining_browsers_too() -> None:
    drained = [BrowserLoad(1, DRAINING, sessions=16), BrowserLoad(2, DRAINING, sessions=16)]
    assert choose_browser([*drained, BrowserLoad(3, sessions=7)], SETTINGS) == 3
    assert choose_browser([*drained, BrowserLoad(3, sessions=8)], SETTINGS) is None


@given(loads)
def test_a_session_is_placed_only_where_there_is_room(browsers: list[BrowserLoad]) -> None:
    number = choose_browser(browsers, SETTINGS)
    if number is not None:
        chosen = next(load for load in browsers if load.number == number)
        assert free_slots(chosen, SETTINGS) > 0
        assert sum(load.sessions for load in browsers) < SETTINGS.sessions


def test_there_is_always_one_browser() -> None:
    assert launches_wanted([], 0, 0, SETTINGS) == 1
    assert launches_wanted([], 1, 0, SETTINGS) == 0
    assert launches_wanted([BrowserLoad(1)], 0, 0, SETTINGS) == 0


def test_a_browser_that_retires_is_replaced() -> None:
    assert launches_wanted([BrowserLoad(1, RETIRING, sessions=4)], 0, 0, SETTINGS) == 1
    assert launches_wanted([BrowserLoad(1, DRAINING, sessions=4)], 0, 0, SETTINGS) == 1


def test_the_next_browser_is_started_before_the_last_place_is_taken() -> None:
    assert SETTINGS.spare_slots == 2
    assert launches_wanted([BrowserLoad(1, sessions=14)], 0, 0, SETTINGS) == 0
    assert launches_wanted([BrowserLoad(1, sessions=15)], 0, 0, SETTINGS) == 1
    assert launches_wanted([BrowserLoad(1, sessions=15)], 1, 0, SETTINGS) == 0


def test_no_spare_is_started_for_sessions_that_cannot_come() -> None:
    settings = BrowserSettings(capacity=17, sessions_per_browser=16)
    full = BrowserLoad(1, sessions=16)
    assert launches_wanted([full], 0, 0, settings) == 1
    assert launches_wanted([full, BrowserLoad(2, DRAINING, sessions=1)], 0, 0, settings) == 0


def test_as_many_are_started_as_waiting_sessions_need() -> None:
    assert launches_wanted([BrowserLoad(1, sessions=16)], 0, 16, SETTINGS) == 2
    assert launches_wanted([BrowserLoad(1, sessions=16)], 1, 16, SETTINGS) == 1


def test_a_browser_that_has_opened_nearly_enough_counts_as_nearly_full() -> None:
    assert launches_wanted([BrowserLoad(1, sessions=1, opened=49)], 0, 0, SETTINGS) == 1


@given(loads, st.integers(0, 5), st.integers(0, 40))
def test_no_more_browsers_serve_than_the_capacity_needs(
    browsers: list[BrowserLoad], launching: int, waiting: int
) -> None:
    serving = sum(load.state is BrowserState.SERVING for load in browsers)
    wanted = launches_wanted(browsers, launching, waiting, SETTINGS)
    assert wanted >= 0
    assert wanted == 0 or serving + launching + wanted <= SETTINGS.most_browsers


@given(loads, st.integers(1, 40))
def test_waiting_sessions_get_a_browser_unless_the_limit_is_reached(
    browsers: list[BrowserLoad], waiting: int
) -> None:
    serving = [load for load in browsers if load.state is BrowserState.SERVING]
    wanted = launches_wanted(browsers, 0, waiting, SETTINGS)
    free = (
        sum(free_slots(load, SETTINGS) for load in serving) + wanted * SETTINGS.sessions_per_browser
    )
    assert free >= waiting or len(serving) + wanted >= SETTINGS.most_browsers


@for_each(
    ("load", "reason"),
    [
        (BrowserLoad(1, age=99.9, opened=49, memory=1000 * MEGABYTE), None),
        (BrowserLoad(1, age=100.0), EndReason.AGE),
        (BrowserLoad(1, opened=50), EndReason.SESSIONS),
        (BrowserLoad(1, memory=1000 * MEGABYTE + 1), EndReason.MEMORY),
        (BrowserLoad(1, failing=True), EndReason.FAILING),
    ],
)
def test_a_browser_is_recycled_by_age_count_memory_and_failures(
    load: BrowserLoad, reason: EndReason | None
) -> None:
    assert retirement(load, SETTINGS) is reason


def test_a_browser_drains_as_soon_as_another_has_room() -> None:
    assert not may_drain([BrowserLoad(1, RETIRING)], SETTINGS)
    assert not may_drain([BrowserLoad(1, RETIRING), BrowserLoad(2, sessions=16)], SETTINGS)
    assert may_drain([BrowserLoad(1, RETIRING), BrowserLoad(2, sessions=15)], SETTINGS)


def test_a_browser_drains_when_no_other_may_be_started_in_its_place() -> None:
    full = [BrowserLoad(number, sessions=16) for number in range(2, 5)]
    assert may_drain([BrowserLoad(1, RETIRING), *full], SETTINGS)


def test_a_draining_browser_ends_with_its_last_session_or_after_a_timeout() -> None:
    assert should_end(BrowserLoad(1, DRAINING), SETTINGS)
    assert not should_end(BrowserLoad(1, DRAINING, sessions=1, draining_for=29.9), SETTINGS)
    assert should_end(BrowserLoad(1, DRAINING, sessions=1, draining_for=30.0), SETTINGS)
    assert not should_end(BrowserLoad(1), SETTINGS)
    assert not should_end(BrowserLoad(1, RETIRING), SETTINGS)


def ended(*processes: ProcessInfo) -> list[int]:
    """The processes to end, by number. Their memory is in megabytes."""
    sized = [ProcessInfo(each.pid, each.kind, each.memory * MEGABYTE) for each in processes]
    return [process.pid for process, _ in renderers_to_end(sized, SETTINGS)]


def test_a_page_that_holds_too_much_memory_is_ended() -> None:
    assert ended(ProcessInfo(7, "renderer", 601), ProcessInfo(8, "renderer", 600)) == [7]


def test_only_pages_are_ended_for_their_memory() -> None:
    assert ended(ProcessInfo(7, "browser", 5000), ProcessInfo(8, "gpu-process", 5000)) == []


def test_the_largest_page_of_a_browser_at_twice_its_bound_is_ended() -> None:
    pages = [ProcessInfo(pid, "renderer", 500 + pid) for pid in (1, 2, 3)]
    assert ended(*pages) == []
    assert ended(*pages, ProcessInfo(9, "browser", 500)) == [3]
