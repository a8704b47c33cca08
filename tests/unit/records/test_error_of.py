"""Failures that were recorded elsewhere can be raised again."""

import pytest

from rollgym.records import (
    Failure,
    FailureKind,
    ModelContextError,
    RolloutError,
    ToolError,
    VerifierError,
    boundary,
    error_of,
)
from rollgym.records.failure import Cause

RECORDED = Failure(
    FailureKind.TOOL,
    "the saw is gone",
    retryable=False,
    retry_after=2.5,
    causes=(Cause("OSError", "no wood"),),
    traceback='File "saw.py", line 3',
)


def test_every_kind_can_be_raised_again_and_recorded_as_it_was() -> None:
    for kind in list(FailureKind):
        failure = Failure(kind, "it broke", retryable=True, retry_after=1.0)
        error = error_of(failure)
        assert Failure.of(error) == failure
        assert (str(error), error.retryable, error.retry_after) == ("it broke", True, 1.0)
    assert type(error_of(Failure(FailureKind.TOOL, ""))) is ToolError
    assert type(error_of(Failure(FailureKind.MODEL_CONTEXT, ""))) is ModelContextError
    assert type(error_of(Failure(FailureKind.INTERNAL, ""))) is RolloutError


def test_classes_of_a_plug_in_do_not_stand_in_for_ours() -> None:
    class SawError(RolloutError):
        kind = FailureKind.TOOL

        def __init__(self) -> None:
            super().__init__("the saw is gone")

    class OtherError(ToolError):
        pass

    class PlainError(RolloutError):
        pass

    assert type(error_of(RECORDED)) is ToolError
    assert type(error_of(Failure(FailureKind.INTERNAL, ""))) is RolloutError
    for error in (SawError(), OtherError("x"), PlainError("x")):
        assert Failure.of(error).kind is error.kind


def test_a_recorded_failure_passes_boundaries_unchanged() -> None:
    with pytest.raises(ToolError) as raised, boundary(VerifierError):
        raise error_of(RECORDED) from KeyError("elsewhere")
    assert Failure.of(raised.value) == RECORDED
    with pytest.raises(ToolError) as raised, boundary(VerifierError):
        raise ExceptionGroup("tools", [error_of(RECORDED)])
    assert Failure.of(raised.value) == RECORDED


def test_a_boundary_can_be_crossed_again_and_leaves_cancellation_alone() -> None:
    around = boundary(ToolError)
    for _ in range(2):
        with pytest.raises(ToolError, match="ValueError: no"), around:
            raise ValueError("no")
    for error in (KeyboardInterrupt(), GeneratorExit(), BaseExceptionGroup("", [SystemExit()])):
        with pytest.raises(type(error)), around:
            raise error
    with around:
        pass
