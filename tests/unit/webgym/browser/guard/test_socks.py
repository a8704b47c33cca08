"""The words of SOCKS 5, as bytes."""

from contextlib import suppress
from ipaddress import ip_address
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import for_each
from webgym.browser.guard.socks import (
    WELCOME,
    ConnectionTarget,
    SocksError,
    SocksHandshake,
    SocksReply,
)

GREETING = b"\x05\x01\x00"
BY_NAME = b"\x05\x01\x00\x03\x0bexample.com\x01\xbb"
TALK = GREETING + BY_NAME


def _talk(*pieces: bytes) -> tuple[bytes, ConnectionTarget | None, bytes]:
    handshake, answers, target = SocksHandshake(), b"", None
    for piece in pieces:
        if target is None:
            answer, target = handshake.feed(piece)
            answers += answer
    return answers, target, handshake.rest


def test_a_browser_is_welcomed_and_its_target_read() -> None:
    assert _talk(GREETING) == (b"\x05\x00", None, b"")
    assert _talk(GREETING, BY_NAME) == (b"\x05\x00", ConnectionTarget("example.com", 443), b"")


@given(st.lists(st.integers(0, len(TALK)), max_size=8))
def test_the_pieces_in_which_it_arrives_do_not_matter(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(TALK)]
    pieces = [TALK[start:end] for start, end in pairwise(edges)]
    assert _talk(*pieces) == (b"\x05\x00", ConnectionTarget("example.com", 443), b"")


def test_what_follows_the_request_at_once_is_kept() -> None:
    assert _talk(TALK + b"GET /")[2] == b"GET /"


@for_each(
    ("request_bytes", "target"),
    [
        (
            b"\x05\x01\x00\x01\x7f\x00\x00\x01\x00\x50",
            ConnectionTarget(ip_address("127.0.0.1"), 80),
        ),
        (
            b"\x05\x01\x00\x04" + b"\0" * 15 + b"\x01\x00\x50",
            ConnectionTarget(ip_address("::1"), 80),
        ),
        (
            b"\x05\x01\x00\x04" + b"\0" * 10 + b"\xff\xff\x7f\0\0\x01\x00\x50",
            ConnectionTarget(ip_address("127.0.0.1"), 80),
        ),
        (b"\x05\x01\x00\x03\x09127.0.0.1\x00\x50", ConnectionTarget(ip_address("127.0.0.1"), 80)),
        (b"\x05\x01\x00\x03\x03::1\x00\x50", ConnectionTarget(ip_address("::1"), 80)),
        (b"\x05\x01\x00\x03\x0aLOCALHOST.\x00\x50", ConnectionTarget("localhost", 80)),
    ],
)
def test_addresses_come_in_every_form(request_bytes: bytes, target: ConnectionTarget) -> None:
    assert _talk(GREETING, request_bytes)[1] == target


@for_each(
    ("talk", "answer"),
    [
        (b"\x04\x01\x00\x50", b""),
        (b"GET / HTTP/1.1\r\n", b""),
        (b"\x05\x01\x02", b"\x05\xff"),
        (b"\x05\x00", b"\x05\xff"),
        (GREETING + b"\x05\x02\x00\x01\x7f\0\0\x01\x00\x50", SocksReply.COMMAND_UNKNOWN.wire),
        (GREETING + b"\x05\x03\x00\x01\x7f\0\0\x01\x00\x50", SocksReply.COMMAND_UNKNOWN.wire),
        (GREETING + b"\x05\x01\x00\x02\x7f\0\0\x01\x00\x50", SocksReply.ADDRESS_UNKNOWN.wire),
        (GREETING + b"\x04\x01\x00\x01\x7f\0\0\x01\x00\x50", SocksReply.FAILED.wire),
        (GREETING + b"\x05\x01\x00\x03\x00\x00\x50", SocksReply.HOST_UNREACHABLE.wire),
        (GREETING + b"\x05\x01\x00\x03\x03a b\x00\x50", SocksReply.HOST_UNREACHABLE.wire),
        (GREETING + b"\x05\x01\x00\x03\x02\xc3\xbc\x00\x50", SocksReply.HOST_UNREACHABLE.wire),
    ],
)
def test_what_is_not_served_is_answered_as_the_standard_says(talk: bytes, answer: bytes) -> None:
    with pytest.raises(SocksError) as caught:
        _talk(talk)
    welcome = WELCOME if talk.startswith(GREETING) else b""
    assert caught.value.answer == welcome + answer


@given(st.binary(max_size=600))
def test_nonsense_never_breaks_it(data: bytes) -> None:
    for talk in (data, b"\x05" + data, GREETING + b"\x05\x01\x00" + data):
        with suppress(SocksError):
            answers, _, rest = _talk(talk)
            assert answers in (b"", b"\x05\x00")
            assert len(rest) <= len(talk)
