"""When an endpoint rests, wakes, and is probed: no clock, no I/O."""

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollgym.records import ModelRateLimitError
from rollgym.servers.endpoints import EndpointPoolSettings, EndpointSettings
from rollgym.servers.endpoints.endpoint import Endpoint, EndpointHealth
from rollgym.servers.endpoints.failures import FailedTry

RULES = EndpointPoolSettings(failures_before_rest=3, rest_initial=1.0, rest_maximum=8.0)


def failing(times: int, *, at: float = 10.0) -> EndpointHealth:
    health = EndpointHealth(RULES)
    for _ in range(times):
        health.failed(now=at, started=at - 1)
    return health


def test_an_endpoint_rests_after_failures_in_a_row_and_not_before() -> None:
    assert not failing(2).cooling_down
    assert failing(2).available_at < 10.0
    assert failing(3).cooling_down
    assert failing(3).available_at == 11.0


def test_a_success_between_failures_starts_the_count_again() -> None:
    health = failing(2)
    health.succeeded()
    health.failed(now=11.0, started=10.5)
    assert not health.cooling_down


def test_each_probe_that_fails_makes_the_rest_longer_up_to_its_bound() -> None:
    health = failing(3, at=0.0)
    rests = []
    for _ in range(6):
        now = health.available_at
        health.request_started(now)
        health.failed(now + 0.5, started=now)
        rests.append(health.available_at - now - 0.5)
    assert rests == [2.0, 4.0, 8.0, 8.0, 8.0, 8.0]


def test_a_probe_holds_back_the_next_for_another_rest() -> None:
    health = failing(3)
    health.request_started(11.0)
    assert health.available_at == 12.0
    health.request_started(12.0)
    assert health.available_at == 13.0


def test_a_success_ends_the_rest_even_if_it_began_before_the_rest() -> None:
    health = failing(3)
    health.succeeded()
    assert not health.cooling_down
    assert health.available_at < 10.0


def test_a_storm_of_failures_that_began_before_the_rest_is_one_piece_of_news() -> None:
    health = failing(500)
    assert health.available_at == 11.0


def test_a_pause_is_kept_to_its_end_whatever_succeeds_meanwhile() -> None:
    health = EndpointHealth(RULES)
    health.pause(now=10.0, seconds=5.0)
    health.succeeded()
    assert health.available_at == 15.0


def test_after_a_pause_there_is_no_probing() -> None:
    health = EndpointHealth(RULES)
    health.pause(now=10.0, seconds=5.0)
    health.request_started(15.0)
    assert health.available_at == 15.0


def test_of_two_pauses_the_later_end_holds_and_none_is_longer_than_the_bound() -> None:
    health = EndpointHealth(RULES)
    health.pause(10.0, 20.0)
    health.pause(11.0, 1.0)
    assert health.available_at == 30.0
    health.pause(12.0, 1e9)
    assert health.available_at == 72.0


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["begin", "success", "failure", "stale failure", "pause"]),
            st.floats(0.001, 20),
        ),
        max_size=60,
    )
)
def test_whatever_happens_an_endpoint_wakes_within_its_bounds(
    events: list[tuple[str, float]],
) -> None:
    health, now = EndpointHealth(RULES), 0.0
    for event, passed in events:
        before, now = now, now + passed
        match event:
            case "begin":
                health.request_started(now)
            case "success":
                health.succeeded()
                assert not health.cooling_down
            case "failure":
                health.failed(now, started=before)
            case "stale failure":
                health.failed(now, started=0.0)
            case _:
                health.pause(now, passed * 10)
        assert health.available_at - now <= RULES.max_retry_after + 1e-6


def test_many_cooldowns_of_a_saturated_endpoint_are_few_lines_of_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings = EndpointSettings(base_url="http://127.0.0.1:8000/v1")
    endpoint = Endpoint(settings, EndpointPoolSettings(failures_before_rest=1))
    busy = FailedTry(ModelRateLimitError, "answered 429")
    for second in range(60):
        endpoint.acquire(float(second))
        endpoint.failed(busy, float(second), second + 0.5, alone=False)
        endpoint.succeeded()
    lines = [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]
    assert len(lines) == 2
    assert "(30 times)" in lines[1]
