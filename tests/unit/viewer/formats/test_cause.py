from hypothesis import given
from hypothesis import strategies as st

from rollgym.viewer.formats.facts import CAUSE_LIMIT, cause_of


def test_failures_of_one_cause_are_one_group() -> None:
    for one, other, cause in [
        (
            "HTTP 503 from http://127.0.0.1:4711/x after 3.2 s",
            "HTTP 503 from http://127.0.0.1:35211/y?z=1 after 10 s",
            "HTTP 503 from … after N s",
        ),
        (
            "[Errno 111] Connect call failed ('127.0.0.1', 35617)",
            "[Errno 111] Connect call failed ('::1', 80)",
            "[Errno 111] Connect call failed ('…', N)",
        ),
        (
            "no session 5b1c7f0e-8a52-4a3b-9a5e-0123456789ab",
            "no session AB1C7F0E-8A52-4A3B-9A5E-0123456789AB",
            "no session …",
        ),
        (
            "KeyError: 'a key' in /srv/app/tools.py, line 12",
            "KeyError: 'key b' in ./tools/other.py, line 7",
            "KeyError: '…' in …, line N",
        ),
        (
            'the tool "get weather" said "no"',
            'the tool "x" said "a much longer no"',
            'the tool "…" said "…"',
        ),
        (
            "call_5c6541b2125e685e is unknown",
            "call_0000ffff2125e68a is unknown",
            "call_… is unknown",
        ),
        ("object at 0x7f1200", "object at 0xDEADBEEF", "object at …"),
        ("status code: 500 (try 1)", "status code: 500 (try 22)", "status code: 500 (try N)"),
        ("localhost:8080 is gone", "worker-3.cluster:9999 is gone", "… is gone"),
        ("missing 1, 2, 3", "missing 4, 5", "missing N, …"),
        ("took -1.5e-3 of 1,000", "took 7 of 2,500.25", "took N of N"),
        ("two\n  lines", "two lines", "two lines"),
    ]:
        assert cause_of(one) == cause_of(other) == cause


def test_failures_of_different_causes_are_not() -> None:
    for one, other in [
        ("HTTP 503 from http://a/x", "HTTP 429 from http://a/x"),
        ("status=500", "status=502"),
        ("[Errno 111] refused", "[Errno 104] reset"),
        ("the tool broke", "the verifier broke"),
    ]:
        assert cause_of(one) != cause_of(other)


def test_an_apostrophe_quotes_nothing() -> None:
    message = "the calculator's server closed the user's connection"
    assert cause_of(message) == message


@given(st.text(max_size=2000))
def test_any_message_becomes_one_short_printable_line(message: str) -> None:
    cause = cause_of(message)
    assert len(cause) <= CAUSE_LIMIT
    assert cause.isprintable()


def test_a_long_message_costs_little() -> None:
    for message in ("/" * 100_000, "'" * 100_000, "1." * 50_000, "a-" * 50_000, "f" * 100_000):
        assert len(cause_of(message)) <= CAUSE_LIMIT
