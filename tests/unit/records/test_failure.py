"""Exceptions become typed, bounded data."""

import json
from collections.abc import Callable

import pytest
from aiohttp import ServerDisconnectedError

from rollgym.records import (
    TRAITS,
    Failure,
    FailureKind,
    ModelRateLimitError,
    RolloutError,
    ToolError,
    VerifierError,
    boundary,
)
from rollgym.records import failure as failure_module
from rollgym.records.failure import DETAIL_LIMIT
from rollgym.records.origin import CAUSE_LIMIT


def failure_of(error: BaseException) -> Failure:
    try:
        raise error
    except BaseException as raised:  # noqa: BLE001
        return Failure.of(raised)


ERRORS = [
    error
    for error in vars(failure_module).values()
    if isinstance(error, type) and issubclass(error, RolloutError)
]


def test_a_typed_error_keeps_its_kind_and_trait() -> None:
    assert set(TRAITS) == set(FailureKind)
    for error in ERRORS:
        failure = failure_of(error("it broke"))
        assert (failure.kind, failure.detail) == (error.kind, "it broke")
        assert failure.retryable == TRAITS[error.kind].retryable
    failure = failure_of(ModelRateLimitError("slow down", retryable=False, retry_after=7.5))
    assert (failure.retryable, failure.retry_after) == (False, 7.5)


def test_an_untyped_error_is_internal_with_its_traceback() -> None:
    failure = failure_of(KeyError("lost"))
    assert failure.kind is FailureKind.INTERNAL
    assert failure.detail == "KeyError: 'lost'"
    assert not failure.retryable
    assert failure.traceback is not None
    assert "test_failure.py" in failure.traceback
    assert "in failure_of" in failure.traceback
    assert failure_of(TimeoutError()).kind is FailureKind.TIMEOUT

    class WeatherError(RolloutError):
        kind = "weather"  # type: ignore[assignment]

    assert failure_of(WeatherError("rain")).kind is FailureKind.INTERNAL


def test_a_boundary_attributes_untyped_errors_and_passes_typed_ones() -> None:
    with pytest.raises(ToolError) as raised, boundary(ToolError):
        raise ValueError("bad weather")
    failure = Failure.of(raised.value)
    assert failure.kind is FailureKind.TOOL
    assert failure.detail == "ValueError: bad weather"
    assert [(cause.type, cause.message) for cause in failure.causes] == [
        ("ValueError", "bad weather")
    ]
    with pytest.raises(VerifierError, match="no reward"), boundary(ToolError):
        raise ExceptionGroup("many", [VerifierError("no reward")])
    with pytest.raises(VerifierError), boundary(ToolError):
        raise VerifierError("no reward")


def test_a_group_is_reported_by_its_first_error_if_all_are_of_one_kind() -> None:
    group = ExceptionGroup("many", [ToolError("one"), ExceptionGroup("more", [ToolError("two")])])
    failure = failure_of(group)
    assert (failure.kind, failure.detail) == (FailureKind.TOOL, "one")
    assert [cause.message for cause in failure.causes] == ["two"]
    failure = failure_of(ExceptionGroup("many", [ToolError("one"), KeyError("two")]))
    assert failure.kind is FailureKind.INTERNAL
    assert [cause.type for cause in failure.causes] == ["ToolError", "KeyError"]


def test_texts_tracebacks_and_causes_are_bounded() -> None:
    failure = failure_of(ToolError("x" * 1_000_000))
    assert len(failure.detail) < DETAIL_LIMIT + 100
    assert failure.detail.endswith("… (996000 more characters)")

    def descend(depth: int) -> None:
        descend(depth + 1)

    with pytest.raises(RecursionError) as raised:
        descend(0)
    traceback = Failure.of(raised.value).traceback
    assert traceback is not None
    assert len(traceback.splitlines()) < 30
    assert "more frames)" in traceback
    error = ValueError("0")
    for number in range(1, 50):
        following = ValueError(str(number))
        following.__cause__ = error
        error = following
    assert len(Failure.of(error).causes) == CAUSE_LIMIT


def test_an_error_that_cannot_be_shown_is_still_recorded() -> None:
    class RudeError(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert "cannot be shown" in failure_of(RudeError()).detail
    assert failure_of(ValueError("\ud800")).detail == "ValueError: ?"


def test_odd_causes_do_not_disturb_recording() -> None:
    one, other = ExceptionGroup("one", [KeyError(1)]), ExceptionGroup("other", [KeyError(2)])
    one.__cause__, other.__cause__ = other, one
    error = ValueError("both")
    error.__cause__ = one
    assert Failure.of(error).causes == ()
    error = ValueError("shown")
    error.__context__ = KeyError("hidden")
    assert [cause.type for cause in Failure.of(error).causes] == ["KeyError"]
    error.__suppress_context__ = True
    assert Failure.of(error).causes == ()


def bounded(work: Callable[[], object]) -> Failure:
    with pytest.raises(VerifierError) as raised, boundary(VerifierError):
        work()
    return Failure.of(raised.value)


def test_an_exception_of_a_plugin_has_the_line_of_the_plugin() -> None:
    failure = bounded(lambda: json.loads("{"))
    line = test_an_exception_of_a_plugin_has_the_line_of_the_plugin.__code__.co_firstlineno + 1
    assert (failure.exception, failure.file, failure.line) == ("JSONDecodeError", __file__, line)
    assert failure.traceback is not None
    assert "json/decoder.py" in failure.traceback.splitlines()[-1]
    assert failure.bug == ("JSONDecodeError", __file__, line)
    assert Failure.of(VerifierError("on purpose")).file is None


def test_errors_that_may_go_away_are_no_bugs() -> None:
    class BusyError(Exception):
        status_code = 503

    def wrapped() -> None:
        try:
            raise ConnectionResetError
        except ConnectionResetError as error:
            raise ValueError("no answer") from error

    def fail(error: Exception) -> Callable[[], None]:
        def work() -> None:
            raise error

        return work

    disconnected = fail(ServerDisconnectedError())
    for work in (fail(TimeoutError()), fail(BusyError()), wrapped, disconnected):
        failure = bounded(work)
        assert (failure.transient, failure.bug, failure.line is None) == (True, None, False)
    assert bounded(fail(FileNotFoundError("data.json"))).bug is not None
