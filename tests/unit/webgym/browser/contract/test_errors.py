"""Errors as they cross the wire."""

import msgspec

from rollgym.records import BrowserError, BrowserUnavailableError, DeadlineError, RolloutError
from tests.cases import for_each
from webgym.browser.contract.errors import (
    WIRE_ERRORS,
    BadRequestError,
    CommandError,
    ErrorBody,
    NoSessionError,
    SessionLostError,
    StepDeadlineError,
    UnknownElementError,
    WireError,
    error_body,
    error_named,
)


@for_each("kind", WIRE_ERRORS)
def test_an_error_is_the_same_on_the_other_side(kind: type[WireError]) -> None:
    body = msgspec.json.decode(error_body(kind("what happened")), type=ErrorBody)
    assert (body.status, body.message) == ("error", "what happened")
    back = error_named(body.error.type, body.error.message)
    assert type(back) is kind
    assert str(back) == "what happened"


def test_only_what_ends_an_episode_is_a_failure_of_the_rollout() -> None:
    assert issubclass(SessionLostError, BrowserError)
    assert issubclass(NoSessionError, BrowserUnavailableError)
    assert issubclass(StepDeadlineError, DeadlineError)
    for told_to_the_agent in (CommandError, UnknownElementError, BadRequestError):
        assert not issubclass(told_to_the_agent, RolloutError)


def test_what_a_newer_server_reports_is_a_failed_command() -> None:
    assert type(error_named("from_the_future", "?")) is CommandError


def test_the_time_to_wait_comes_along() -> None:
    error = error_named("no_session", "all are taken", 2.5)
    assert isinstance(error, NoSessionError)
    assert error.retry_after == 2.5
