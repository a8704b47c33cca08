"""Messages over a pair of connected channels, in one event loop."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import msgspec
import pytest

from rollgym.cluster.channel import MOST_UNSENT, Channel
from rollgym.cluster.messages import (
    ENCODER,
    HEADER_SIZE,
    HELLO_LIMIT,
    Bye,
    Call,
    Message,
    decode_outcome,
    encode_outcome,
)
from rollgym.engine import run
from rollgym.records import Completed


class End:
    """One end: what it received, and why it was lost."""

    def __init__(self) -> None:
        self.received: list[Message] = []
        self.lost = asyncio.get_running_loop().create_future()
        self.channel = Channel(
            lambda _, message: self.received.append(message),
            lambda _, reason: self.lost.set_result(reason),
        )


def _same(channel: Channel) -> Channel:
    return channel


@asynccontextmanager
async def _connected() -> AsyncIterator[tuple[End, End]]:
    ends = End(), End()
    for channel, side in zip([end.channel for end in ends], socket.socketpair(), strict=True):
        await asyncio.get_running_loop().create_connection(partial(_same, channel), sock=side)
    try:
        yield ends
    finally:
        for end in ends:
            end.channel.abort("the test is over")
        await asyncio.wait([end.lost for end in ends], timeout=30)


def test_messages_arrive_in_order_however_the_bytes_are_cut() -> None:
    async def send() -> list[Message]:
        end = End()
        end.channel.trust()
        messages = [Call(number, "store", bytes([number]) * number * 50) for number in range(40)]
        frames = b"".join(
            len(body).to_bytes(HEADER_SIZE, "big") + body for body in map(ENCODER.encode, messages)
        )
        for size in (1, 7, 1000):
            for start in range(0, len(frames), size):
                end.channel.data_received(frames[start : start + size])
        assert end.received == messages * 3
        return end.received

    assert asyncio.run(send())


def test_everything_that_was_sent_arrives_before_the_end() -> None:
    async def send() -> tuple[list[Message], str]:
        async with _connected() as (first, second):
            second.channel.trust()
            for number in range(100):
                first.channel.send(Call(number, "store", b"x" * 10_000))
            first.channel.send(Bye())
            first.channel.close()
            return second.received, await asyncio.wait_for(second.lost, 30)

    received, reason = asyncio.run(send())
    assert len(received) == 101
    assert received[-1] == Bye()
    assert reason == "the connection was closed"


def test_a_turn_that_goes_on_sends_what_it_has() -> None:
    async def send() -> bytes:
        ours, theirs = socket.socketpair()
        end = End()
        await asyncio.get_running_loop().create_connection(partial(_same, end.channel), sock=ours)
        for _ in range(MOST_UNSENT):
            end.channel.send(Bye())
        theirs.setblocking(False)
        with theirs:
            return theirs.recv(1 << 16)

    frame = ENCODER.encode(Bye())
    assert run(send()) == MOST_UNSENT * (len(frame).to_bytes(HEADER_SIZE, "big") + frame)


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        ((HELLO_LIMIT + 1).to_bytes(HEADER_SIZE, "big"), "announced a message of 4097 bytes"),
        (b"\0\0\0\1\xc1", "did not follow the protocol"),
        (b"\0\0\0\2" + msgspec.msgpack.encode(["x"])[:2], "did not follow the protocol"),
    ],
)
def test_a_stranger_that_sends_anything_else_is_cut_off(frame: bytes, reason: str) -> None:
    async def send() -> str:
        async with _connected() as (_, second):
            second.channel.data_received(frame)
            lost: str = await asyncio.wait_for(second.lost, 30)
            return lost

    assert reason in asyncio.run(send())


def test_notes_are_dropped_when_the_other_side_does_not_read() -> None:
    async def send() -> int:
        async with _connected() as (first, second):
            assert second.channel._transport is not None
            second.channel._transport.pause_reading()
            for _ in range(100):
                first.channel.note("log", b"x" * 1_000_000)
                await asyncio.sleep(0)
            return first.channel.dropped

    assert asyncio.run(send()) > 50


def test_an_outcome_keeps_its_result_byte_for_byte() -> None:
    outcome = Completed(0.5, result=msgspec.Raw(b'{"a": 1.0,  "b":"\\u00e9"}'))

    assert bytes(decode_outcome(encode_outcome(outcome)).result) == bytes(outcome.result)
