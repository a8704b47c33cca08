"""What answers of model endpoints mean."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rollgym.records import (
    ModelAuthError,
    ModelContextError,
    ModelMalformedError,
    ModelRateLimitError,
    ModelRequestError,
    ModelUnavailableError,
    RolloutError,
)
from rollgym.servers.endpoints.failures import (
    MESSAGE_LIMIT,
    FailedTry,
    checked_object,
    failed_try_of,
    json_object,
)
from rollgym.servers.exact_tokens import completion_reader
from tests.cases import for_each
from tests.faulty_model import OVERFLOWS

KEY = "sk-1234567"


def redact(text: str) -> str:
    return text.replace(KEY, "[key]")


def fault(status: int, body: Any = b"", headers: dict[str, str] | None = None) -> FailedTry:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return failed_try_of(status, headers or {}, raw, redact, clock=0.0)


@for_each(
    ("status", "error", "worth_retrying"),
    [
        (307, ModelRequestError, False),
        (400, ModelRequestError, False),
        (401, ModelAuthError, False),
        (403, ModelAuthError, False),
        (404, ModelRequestError, False),
        (408, ModelUnavailableError, True),
        (409, ModelUnavailableError, True),
        (413, ModelRequestError, False),
        (418, ModelRequestError, False),
        (422, ModelRequestError, False),
        (429, ModelRateLimitError, True),
        (500, ModelUnavailableError, True),
        (501, ModelRequestError, False),
        (503, ModelUnavailableError, True),
        (529, ModelUnavailableError, True),
    ],
)
def test_the_status_decides_what_kind_of_failure_an_answer_is(
    status: int, error: type[RolloutError], worth_retrying: bool
) -> None:
    found = fault(status, {"error": {"message": "No."}})
    assert (found.error, found.worth_retrying) == (error, worth_retrying)
    assert found.reason.startswith(f"answered {status}: No.")


def test_what_llama_cpp_never_answers_is_a_wrong_request_in_spite_of_its_status() -> None:
    for said in ("image input is not supported - hint: mmproj", "Failed to parse tools: Missing"):
        found = fault(500, {"error": {"message": said, "type": "server_error"}})
        assert (found.error, found.worth_retrying) == (ModelRequestError, False)


@for_each("server", OVERFLOWS)
def test_a_conversation_that_is_too_long_is_recognised_in_every_wording(server: str) -> None:
    status, body = OVERFLOWS[server]
    assert fault(status, body).error is ModelContextError


@for_each(
    "body",
    [
        {"error": {"message": "Invalid value for 'temperature'", "code": "invalid_value"}},
        {"detail": [{"loc": ["body", "input"], "msg": "bad", "input": "maximum context length"}]},
        {"error": {"message": "max_tokens must be at least 1, got 0."}},
        {"error": {"message": "bad image"}, "input": "What is a context window? exceeds it"},
    ],
)
def test_another_mistake_is_no_overflow_even_if_it_quotes_a_talk_about_one(body: object) -> None:
    assert fault(400, body).error is ModelRequestError


@for_each(
    ("body", "message"),
    [
        ({"error": {"message": "Nested."}}, "Nested."),
        ({"object": "error", "message": "On top.", "code": 400}, "On top."),
        ({"error": "A string."}, "A string."),
        ({"detail": "Of FastAPI."}, "Of FastAPI."),
        ({"detail": [{"loc": ["body", 0], "msg": "Field required"}]}, "body.0: Field required"),
        ({"error": {"reason": "odd"}}, '{"reason":"odd"}'),
        (["a", "list"], "a; list"),
        (b"<html>\n<body>Bad \x1b[31mGateway</body>", "<html> <body>Bad [31mGateway</body>"),
        (b"\xff\xfe", "\ufffd\ufffd"),
    ],
)
def test_the_servers_message_is_found_in_every_shape_and_shown_on_one_line(
    body: object, message: str
) -> None:
    assert fault(400, body).reason == f"answered 400: {message}"


def test_an_answer_without_a_body_is_named_by_its_status() -> None:
    assert fault(502).reason == "answered 502"


@for_each("status", [429, 503])
def test_the_wait_that_is_asked_for_is_kept(status: int) -> None:
    assert fault(status, headers={"retry-after": "12"}).retry_after == 12.0


def test_an_exhausted_quota_is_a_rate_limit_that_no_waiting_helps() -> None:
    found = fault(429, {"error": {"message": "Quota.", "code": "insufficient_quota"}})
    assert found.error is ModelRateLimitError
    assert not found.worth_retrying
    assert found.to_error("x").retryable is False


@for_each(("status", "advice"), [(401, "API key"), (404, "name of the model"), (302, "base URL")])
def test_what_the_user_can_mend_comes_with_advice(status: int, advice: str) -> None:
    assert advice in fault(status, {"error": {"message": "No."}}).reason


def test_a_key_that_the_server_repeats_is_taken_out_before_the_message_is_cut() -> None:
    for length in range(MESSAGE_LIMIT - len(KEY) - 2, MESSAGE_LIMIT + 2):
        text = "x" * length + KEY
        found = [fault(401, {"error": {"message": text}}), fault(401, text.encode())]
        malformed = json_object(text.encode(), redact, checked_object)
        assert isinstance(malformed, FailedTry)
        for each in [*found, malformed]:
            assert "sk-" not in each.reason
            assert len(each.reason) < MESSAGE_LIMIT + 200


def test_a_json_object_passes_byte_for_byte() -> None:
    body = b'{"b": 1.0, "a": [1e3,  "\\u00e9"]}'
    assert json_object(body, redact, checked_object) == body


@for_each(
    "body",
    [
        b"",
        b"  ",
        b"[]",
        b"null",
        b'{"a": 1',
        b'{"a": NaN}',
        b"<html>",
        b'{"a":"\xff"}',
        b"[" * 10**5,
    ],
)
def test_a_success_that_is_no_json_object_is_malformed(body: bytes) -> None:
    for read in (checked_object, completion_reader(whole=True), completion_reader(whole=False)):
        found = json_object(body, redact, read)
        assert isinstance(found, FailedTry)
        assert found.error is ModelMalformedError


@given(
    st.integers(300, 599),
    st.binary()
    | st.recursive(
        st.none() | st.booleans() | st.text() | st.integers(-9, 9),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(["error", "message", "detail", "msg", "loc", "code", "type"]), inner
            )
        ),
    ).map(lambda value: json.dumps(value).encode()),
)
def test_no_body_breaks_the_reading_of_an_error(status: int, body: bytes) -> None:
    found = fault(status, body)
    assert found.reason.startswith(f"answered {status}")
    assert "\n" not in found.reason
