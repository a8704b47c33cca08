"""How long a server asks us to stay away."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollgym.servers.endpoints.failures import requested_wait
from tests.cases import for_each

NOON = 1_767_268_800.0  # 2026-01-01 12:00:00 UTC


@for_each(
    ("headers", "message", "seconds"),
    [
        ({"retry-after": "7"}, "", 7.0),
        ({"retry-after": "0.25"}, "", 0.25),
        ({"retry-after-ms": "1500", "retry-after": "2"}, "", 1.5),
        ({"retry-after": "Thu, 01 Jan 2026 12:00:30 GMT"}, "", 30.0),
        ({"retry-after": "Thu, 01 Jan 2026 12:00:30 -0000"}, "", 30.0),
        ({"retry-after": "Thu, 01 Jan 2026 11:00:00 GMT"}, "", 0.0),
        ({}, "Rate limit reached. Please try again in 3.2s. Visit …", 3.2),
        ({}, "Please try again in 28ms.", 0.028),
        ({}, "Please try again in 6m0s.", 360.0),
        ({}, "Please try again in 1h2m3.5s.", 3723.5),
        ({"retry-after": "5"}, "Please try again in 60s.", 5.0),
        ({}, "", None),
        ({}, "Please try again in a few hours.", None),
        ({"retry-after": "soon"}, "", None),
        ({"retry-after": "-1"}, "", None),
        ({"retry-after": "nan"}, "", None),
        ({"retry-after": "1e300"}, "", None),
        ({"retry-after-ms": "x", "retry-after": "3"}, "", 3.0),
    ],
)
def test_a_wait_is_read_in_every_way_in_use(
    headers: dict[str, str], message: str, seconds: float | None
) -> None:
    assert requested_wait(headers, message, NOON) == pytest.approx(seconds)


@given(st.text(), st.text(), st.text())
def test_nonsense_is_never_an_error_and_never_a_negative_wait(
    milliseconds: str, header: str, message: str
) -> None:
    headers = {"retry-after-ms": milliseconds, "retry-after": header}
    wait = requested_wait(headers, message, NOON)
    assert wait is None or wait >= 0
