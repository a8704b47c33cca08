"""Failures as answers, and answers as failures."""

import json

import msgspec

from rollgym.records import (
    AgentError,
    Failure,
    FailureKind,
    ModelContextError,
    ModelRateLimitError,
    RolloutError,
    TaskError,
    ToolError,
    VerifierError,
)
from rollgym.servers import Answer
from rollgym.servers.exchange import (
    FAILURE_HEADER,
    error_answer,
    failure_answer,
    failure_in,
    json_answer,
)
from tests.cases import for_each


@for_each(
    ("error", "status"),
    [
        (ModelRateLimitError("slow down"), 429),
        (ModelContextError("too long"), 400),
        (TaskError("no such town"), 422),
        (ToolError("gone"), 502),
        (VerifierError("no reward"), 500),
        (AgentError("lost"), 500),
        (TimeoutError(), 504),
        (KeyError("x"), 500),
    ],
)
def test_a_failure_has_the_status_that_others_expect(error: Exception, status: int) -> None:
    answer = failure_answer(error)
    assert answer.status == status
    assert answer.headers[FAILURE_HEADER] == Failure.of(error).kind


def test_those_who_know_nothing_of_us_can_read_a_failure() -> None:
    answer = failure_answer(ModelRateLimitError("slow down", retry_after=2.0))
    assert json.loads(answer.body)["error"] == {
        "message": "slow down",
        "type": "model_rate_limit",
        "param": None,
        "code": None,
        "kind": "model_rate_limit",
        "detail": "slow down",
        "retryable": True,
        "retry_after": 2.0,
    }
    assert answer.headers["retry-after"] == "2"


@for_each(
    ("wait", "header"), [(None, None), (0.0, "0"), (0.5, "0.5"), (90.0, "90"), (1e8, "100000000")]
)
def test_the_wait_is_a_number_without_ornaments(wait: float | None, header: str | None) -> None:
    answer = failure_answer(ToolError("busy", retry_after=wait))
    assert answer.headers.get("retry-after") == header


def test_what_there_was_of_the_episode_goes_along() -> None:
    error = ToolError("gone")
    error.partial = b'{"response":{"output":[1]}}'
    back = failure_in(failure_answer(error))
    assert isinstance(back, ToolError)
    assert back.partial == error.partial


def test_an_error_in_a_group_is_reported_as_itself() -> None:
    back = failure_in(failure_answer(ExceptionGroup("", [ToolError("one"), ToolError("two")])))
    assert isinstance(back, ToolError)
    assert str(back) == "one"


def test_a_failure_crosses_any_number_of_servers_unchanged() -> None:
    first = Failure.of(ToolError("gone"))
    error: RolloutError | None = ToolError("gone")
    for _ in range(5):
        assert error is not None
        error = failure_in(failure_answer(error))
    assert error is not None
    assert Failure.of(error) == first


def test_an_answer_without_the_header_is_no_failure() -> None:
    assert failure_in(error_answer(500, "oops")) is None
    assert failure_in(Answer(502, failure_answer(ToolError("gone")).body)) is None


@for_each(
    "body",
    [
        b"",
        b"oops",
        b"\xff",
        b"[]",
        b"{}",
        b'{"error": {"kind": "weather", "detail": ""}}',
        b'{"error": {"kind": "tool", "detail": "\xff"}}',
    ],
)
def test_a_failure_that_cannot_be_read_is_none(body: bytes) -> None:
    assert failure_in(Answer(502, body, headers={FAILURE_HEADER: "tool"})) is None


def test_what_a_newer_server_adds_is_passed_over() -> None:
    error = {"kind": "tool", "detail": "gone", "colour": "red"}
    answer = Answer(
        502, msgspec.json.encode({"error": error, "more": 1}), headers={FAILURE_HEADER: "tool"}
    )
    back = failure_in(answer)
    assert isinstance(back, ToolError)
    assert Failure.of(back) == Failure(FailureKind.TOOL, "gone")


def test_a_message_that_cannot_be_encoded_is_still_answered() -> None:
    assert json.loads(error_answer(400, "half a \ud800").body) == {"error": {"message": "half a ?"}}
    assert (
        json.loads(failure_answer(ToolError("half a \ud800")).body)["error"]["detail"] == "half a ?"
    )


def test_an_answer_is_in_order_in_the_two_hundreds() -> None:
    assert [json_answer({}, status).ok for status in (199, 200, 204, 299, 300, 400)] == [
        *(False, True, True, True, False, False)
    ]


def test_an_answer_is_readable_whatever_it_holds() -> None:
    assert Answer(200, b"\xffhello").text == "\ufffdhello"
