"""Which endpoint takes the next request: no clock, no I/O."""

from collections import Counter

from pydantic import SecretStr

from rollgym.records import (
    DeadlineError,
    ModelAuthError,
    ModelRateLimitError,
    ModelRequestError,
    ModelUnavailableError,
)
from rollgym.servers.endpoints.endpoint import Endpoint
from rollgym.servers.endpoints.failures import FailedTry
from rollgym.servers.endpoints.settings import EndpointPoolSettings, EndpointSettings
from rollgym.servers.endpoints.slots import choose, first_available

RULES = EndpointPoolSettings(failures_before_rest=3, rest_initial=1.0, rest_maximum=8.0)
DOWN = FailedTry(ModelUnavailableError, "broke off")


def endpoint(name: str = "a", weight: float = 1.0, limit: int | None = None) -> Endpoint:
    url = f"http://{name}.test/v1"
    return Endpoint(EndpointSettings(base_url=url, weight=weight, max_concurrency=limit), RULES)


def put_to_rest(which: Endpoint, now: float = 0.0) -> None:
    for _ in range(3):
        which.failed(DOWN, started=now - 1, now=now)


def test_load_is_spread_by_weight() -> None:
    endpoints = [endpoint("a", 1.0), endpoint("b", 3.0)]
    for _ in range(40):
        chosen = choose(endpoints, now=0.0)
        assert chosen is not None
        chosen.acquire(0.0)
    assert [each.in_flight for each in endpoints] == [10, 30]


def test_one_request_after_another_goes_to_each_in_turn() -> None:
    endpoints = [endpoint("a"), endpoint("b"), endpoint("c")]
    taken: Counter[Endpoint] = Counter()
    for _ in range(30):
        chosen = choose(endpoints, now=0.0)
        assert chosen is not None
        chosen.acquire(0.0)
        chosen.in_flight -= 1
        taken[chosen] += 1
    assert set(taken.values()) == {10}


def test_a_full_endpoint_is_passed_over_and_full_ones_take_nothing() -> None:
    small, large = endpoint("a", limit=1), endpoint("b", limit=2)
    for expected in (small, large, large):
        assert choose([small, large], now=0.0) is expected
        expected.acquire(0.0)
    assert choose([small, large], now=0.0) is None


def test_a_resting_endpoint_is_passed_over_until_its_probe_is_due() -> None:
    ill, well = endpoint("a"), endpoint("b")
    put_to_rest(ill)
    well.acquire(0.0)
    assert choose([ill, well], now=0.5) is well
    assert choose([ill, well], now=1.0) is ill
    ill.acquire(1.0)
    assert choose([ill, well], now=1.5) is well


def test_a_call_that_has_failed_goes_elsewhere_and_does_not_probe() -> None:
    ill, well, tried = endpoint("a"), endpoint("b"), endpoint("c")
    put_to_rest(ill)
    well.acquire(0.0)
    assert choose([ill, well, tried], now=5.0, tried=[tried]) is well
    assert choose([well, tried], now=5.0, tried=[tried, well, well]) is tried
    assert choose([tried], now=5.0, tried=[tried]) is tried


def test_the_first_to_wake_is_known_only_while_all_rest() -> None:
    early, late = endpoint("a"), endpoint("b")
    late.health.pause(0.0, 5.0)
    assert first_available([early, late], now=0.0) is None
    put_to_rest(early)
    assert first_available([early, late], now=0.0) is early
    assert first_available([early, late], now=1.0) is None


def test_a_rate_limit_with_a_wait_pauses_and_one_without_counts_as_a_failure() -> None:
    asked, silent = endpoint("a"), endpoint("b")
    asked.failed(FailedTry(ModelRateLimitError, "is busy", 5.0), started=0.0, now=1.0)
    assert not asked.health.cooling_down
    assert asked.health.available_at == 6.0
    for _ in range(3):
        silent.failed(FailedTry(ModelRateLimitError, "is busy"), started=0.0, now=1.0)
    assert silent.health.cooling_down


def test_a_refusal_is_a_sign_of_life_and_our_own_deadline_is_no_sign_of_anything() -> None:
    which = endpoint()
    put_to_rest(which)
    which.failed(FailedTry(DeadlineError, "was slow"), started=0.0, now=1.0)
    assert which.health.cooling_down
    which.failed(FailedTry(ModelRequestError, "answered 400"), started=0.0, now=1.0)
    assert not which.health.cooling_down


def test_an_endpoint_that_would_refuse_everything_rests_where_others_can_do_better() -> None:
    alone, one_of_many = endpoint("a"), endpoint("b")
    refused = FailedTry(ModelAuthError, "answered 401", local=True)
    for _ in range(3):
        alone.failed(refused, started=0.0, now=1.0, alone=True)
        one_of_many.failed(refused, started=0.0, now=1.0)
    assert not alone.health.cooling_down
    assert one_of_many.health.cooling_down
    assert one_of_many.last_failed_try is refused


def test_urls_keep_the_query_of_the_base_and_show_none_of_it() -> None:
    url = "https://host.test/openai/v1/?api-version=1&code=secret"
    which = Endpoint(EndpointSettings(base_url=url), RULES)
    whole = "https://host.test/openai/v1/responses?api-version=1&code=secret"
    assert str(which.url("/responses")) == whole
    assert which.shown_url("/responses") == "https://host.test/openai/v1/responses"
    assert which.shown_url() == "https://host.test/openai/v1"


def test_a_report_names_what_happened_and_shows_no_key() -> None:
    settings = EndpointSettings(base_url="http://a.test/v1", api_key=SecretStr("sk-0123456789"))
    which = Endpoint(settings, RULES)
    which.acquire(0.0)
    which.succeeded()
    put_to_rest(which)
    report = which.report(now=0.25)
    assert (report.in_flight, report.ok, report.resting_for) == (1, 1, 0.75)
    assert dict(report.failed) == {"model_unavailable": 3}
    assert which.redact("Bearer sk-0123456789!") == "Bearer [the API key]!"
    assert "sk-" not in repr(report)
