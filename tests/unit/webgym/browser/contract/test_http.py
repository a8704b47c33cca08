"""Reading requests: what is right is typed, what is wrong is named."""

import asyncio

import pytest

from tests.cases import for_each
from webgym.browser.contract.answers import Observe
from webgym.browser.contract.errors import BadRequestError
from webgym.browser.contract.http import (
    BrowserRequest,
    GetQuery,
    NoQuery,
    ScreenshotQuery,
    SessionReference,
    read_object,
    read_query,
    read_query_session,
    read_session_reference,
    read_step,
)


def posted(body: bytes) -> BrowserRequest:
    return BrowserRequest("POST", "/step", body=body)


def test_arguments_are_typed_and_empty_ones_left_out() -> None:
    wanted = read_query(
        "instance_id=a%20b&node=n&format=webp&quality=55&interaction_mode=", ScreenshotQuery
    )
    assert wanted == ScreenshotQuery("a b", "n", None, "set_of_marks", "webp", 55)
    assert read_query("", GetQuery) == GetQuery()
    answered = "instance_id=a&node=n&lifetime_mins=45.0&status=success&colour=red"
    assert read_query(answered, ScreenshotQuery) == ScreenshotQuery("a", "n")
    with pytest.raises(BadRequestError, match="unknown argument 'colour': the arguments are"):
        read_query("colour=red", GetQuery)


@for_each(
    ("query", "message"),
    [
        ("instnce_id=a", "unknown argument 'instnce_id': did you mean instance_id?"),
        ("node=a&node=b", "an argument of the query is given twice"),
        ("format=bmp", "Invalid enum value 'bmp' - at `$.format`"),
        ("quality=101", "Expected `int` <= 100 - at `$.quality`"),
        ("deadline_seconds=301", "Expected `float` <= 300.0 - at `$.deadline_seconds`"),
        ("deadline_seconds=nan", "- at `$.deadline_seconds`"),
        ("deadline_seconds=soon", "Expected `float"),
        ("&".join(f"a{number}=1" for number in range(40)), "the query cannot be read"),
    ],
)
def test_wrong_arguments_are_named(query: str, message: str) -> None:
    with pytest.raises(BadRequestError) as raised:
        read_query(query, ScreenshotQuery)
    assert message in str(raised.value)


def test_where_there_are_no_arguments_it_is_said() -> None:
    with pytest.raises(BadRequestError, match="unknown argument 'a': it takes none"):
        read_query("a=1", NoQuery)


@for_each("wait", ["-1", "601", "inf"])
def test_a_wait_that_is_too_long_is_rejected(wait: str) -> None:
    with pytest.raises(BadRequestError, match="wait_seconds"):
        read_query(f"wait_seconds={wait}", GetQuery)


def test_the_address_is_found_whatever_else_there_is() -> None:
    body = b'{"node": "n", "click_id": {"id": 3}, "instance_id": "i", "deadline_seconds": "7"}'
    assert read_session_reference(posted(body)) == SessionReference("i", "n", 7.0)
    asked = BrowserRequest("POST", "/execute", "instance_id=i", b'{"click_id": {"id": 3}}')
    assert read_session_reference(asked) == SessionReference("i")
    assert read_query_session("x=1&instance_id=i&node=n") == SessionReference("i", "n")


@for_each("body", [b"", b"[]", b"{", b"nonsense", b"\xff", b'"text"', b'{"a": ' + b"[" * 100_000])
def test_a_body_that_is_not_a_json_object_is_rejected(body: bytes) -> None:
    with pytest.raises(BadRequestError, match="the body"):
        read_object(body)


def test_a_body_of_the_wrong_shape_is_refused() -> None:
    with pytest.raises(BadRequestError, match="the body is invalid: .* at `\\$.instance_id`"):
        read_session_reference(posted(b'{"instance_id": {}}'))


def test_what_a_step_observes_is_read() -> None:
    body = b'{"instance_id": "i", "observe": {"screenshot": null, "tree": true}}'
    assert read_step(posted(body)).observe == Observe(screenshot=None, tree=True)
    assert read_step(posted(b'{"instance_id": "i"}')).observe == Observe()
    with pytest.raises(BadRequestError, match="unknown field `tre` - at `\\$.observe`"):
        read_step(posted(b'{"instance_id": "i", "observe": {"tre": true}}'))


def test_a_missing_session_is_asked_for() -> None:
    with pytest.raises(BadRequestError, match="instance_id is missing: give the one that POST"):
        assert read_query_session("node=n").session


def test_the_nearest_deadline_counts() -> None:
    async def scenario() -> None:
        now = asyncio.get_running_loop().time()
        assert BrowserRequest("GET", "/").until(None) == pytest.approx(now + 60, abs=1)
        assert BrowserRequest("GET", "/").until(5) == pytest.approx(now + 5, abs=1)
        assert BrowserRequest("GET", "/", deadline=now + 2).until(5) == now + 2

    asyncio.run(scenario())
