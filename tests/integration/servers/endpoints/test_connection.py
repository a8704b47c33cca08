"""A connection reads whatever HTTP/1.1 allows as an answer, and nothing else."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from rollgym.servers.endpoints.connection import (
    EndpointConnection,
    EndpointResponse,
    IncompleteResponseError,
    TooLongError,
)
from tests.cases import for_each

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


@asynccontextmanager
async def connected(serve: Serve) -> AsyncIterator[EndpointConnection]:
    """A connection to a server that does this, once."""
    over = asyncio.Event()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            await serve(reader, writer)
        writer.close()
        over.set()

    async with await asyncio.start_server(handle, "127.0.0.1", 0) as server, asyncio.timeout(60):
        port = server.sockets[0].getsockname()[1]
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(EndpointConnection, "127.0.0.1", port)
        try:
            yield connection
        finally:
            connection.abort()
            await over.wait()


def answers(*parts: bytes, close: bool = False, asked: int = 1) -> list[EndpointResponse]:
    """What comes of asking a server that sends these bytes, piece by piece, for each request."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(asked):
            await reader.readuntil(b"\r\n\r\n")
            for part in parts:
                writer.write(part)
                await writer.drain()
                await asyncio.sleep(0.001)
        if not close:
            await reader.read()

    async def ask() -> list[EndpointResponse]:
        async with connected(serve) as connection:
            return [
                await connection.send(REQUEST, longest_response=1000, longest_error=20)
                for _ in range(asked)
            ]

    return asyncio.run(ask())


def test_an_answer_of_known_length_in_any_pieces() -> None:
    whole = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A: b\r\n\r\nhello"
    (reply,) = answers(*(whole[i : i + 3] for i in range(0, len(whole), 3)))
    assert (reply.status, reply.body, reply.keep_alive) == (200, b"hello", True)
    assert reply.headers["x-a"] == "b"


def test_several_answers_on_one_connection() -> None:
    replies = answers(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", asked=3)
    assert [reply.body for reply in replies] == [b"ok"] * 3


def test_chunks_and_a_word_in_between() -> None:
    (reply,) = answers(
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
        b"2\r\nde\r\n0\r\n\r\n",
    )
    assert (reply.status, reply.body) == (200, b"abcde")


def test_an_answer_that_ends_with_the_connection() -> None:
    (reply,) = answers(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", b"all of it", close=True)
    assert (reply.complete, reply.body, reply.keep_alive) == (True, b"all of it", False)


def test_an_answer_without_a_body() -> None:
    (reply,) = answers(b"HTTP/1.1 204 No Content\r\n\r\n")
    assert (reply.status, reply.body, reply.complete) == (204, b"", True)


def test_an_error_is_read_as_far_as_anybody_wants() -> None:
    (reply,) = answers(b"HTTP/1.1 500 No\r\nContent-Length: 900\r\n\r\n", b"x" * 30)
    assert (reply.status, reply.complete) == (500, False)
    assert reply.decompressed(20, cut=True).startswith(b"x" * 20)


@for_each(
    ("parts", "error"),
    [
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhalf"], IncompleteResponseError),
        (
            [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhal"],
            IncompleteResponseError,
        ),
        ([b"HTTP/1.1 200 OK\r\nX-"], IncompleteResponseError),
        ([b"SSH-2.0-OpenSSH_9.2\r\n"], IncompleteResponseError),
        ([b"HTTP/1.1 200 OK\r\nContent-Length: nonsense\r\n\r\n"], IncompleteResponseError),
        ([], IncompleteResponseError),
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\n", b"x" * 2000], TooLongError),
    ],
)
def test_what_is_no_whole_answer_is_an_error(parts: list[bytes], error: type[Exception]) -> None:
    with pytest.raises(error):
        answers(*parts, close=True)


def test_what_nobody_asked_for_closes_the_connection() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        await reader.read()

    async def scenario() -> None:
        async with connected(serve) as connection:
            while connection.usable:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.001)
            with pytest.raises(IncompleteResponseError):
                await connection.send(REQUEST, longest_response=10, longest_error=10)

    asyncio.run(scenario())
