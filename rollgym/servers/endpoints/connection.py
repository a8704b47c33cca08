"""A connection to an endpoint: HTTP/1.1 requests, one after another.

Requests are written by hand, because they are always the same few lines, and answers are read by
httptools, the parser that uvicorn stands on. A general client such as aiohttp's does much more for
each request, none of which a model endpoint needs, and costs five times the CPU of it.
"""

import asyncio
import zlib
from typing import cast

import httptools
from multidict import CIMultiDict

_LENGTHS = (b"content-length", b"transfer-encoding")
_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS


class BrokenOffError(Exception):
    """There was no whole answer: the connection was lost, or what came is no HTTP."""


class TooLongError(Exception):
    """The answer is longer than anybody wanted to read."""


class Reply:
    """An answer as far as it has come."""

    __slots__ = ("_body", "complete", "fields", "headers_complete", "keep_alive", "size", "status")

    def __init__(self) -> None:
        self.status = 0
        self.fields: list[tuple[bytes, bytes]] = []
        self._body: list[bytes] = []
        self.size = 0
        self.headers_complete = False
        self.complete = False
        self.keep_alive = False

    @property
    def body(self) -> bytes:
        return self._body[0] if len(self._body) == 1 else b"".join(self._body)

    @property
    def headers(self) -> "CIMultiDict[str]":
        pairs = ((name.decode("latin-1"), value.decode("latin-1")) for name, value in self.fields)
        return CIMultiDict(pairs)

    @property
    def ends_with_the_connection(self) -> bool:
        """Whether it says nothing about its length, so that only the end of all tells its own."""
        return self.headers_complete and not any(
            name.lower() in _LENGTHS for name, _ in self.fields
        )

    def unpacked(self, longest: int, *, cut: bool = False) -> bytes:
        """The body, also of a server that packs though it was asked not to.

        Raises TooLongError where it is longer, unless it is to be `cut`, and BrokenOffError where
        it cannot be unpacked.
        """
        packing = [value for name, value in self.fields if name.lower() == b"content-encoding"]
        if not packing or packing == [b"identity"]:
            return self.body
        try:
            unpacker = zlib.decompressobj(_GZIP_OR_ZLIB)
            body = unpacker.decompress(self.body, longest + 1)
        except zlib.error as error:
            raise BrokenOffError(f"its {packing[0]!r} cannot be unpacked ({error})") from error
        if len(body) > longest and not cut:
            raise TooLongError
        return body[:longest]

    def add(self, part: bytes) -> None:
        self._body.append(part)
        self.size += len(part)


class Connection(asyncio.Protocol):
    """One socket. Ask only while no answer is awaited; after an error it is of no more use."""

    def __init__(self) -> None:
        self.idle_since = 0.0
        self._transport: asyncio.Transport | None = None
        self._parser: httptools.HttpResponseParser | None = None
        self._reply = Reply()
        self._limits = (0, 0)
        self._waiter: asyncio.Future[Reply] | None = None
        self._lost = False

    @property
    def usable(self) -> bool:
        return not self._lost and self._transport is not None and not self._transport.is_closing()

    async def ask(self, request: bytes, *, longest_answer: int, longest_error: int) -> Reply:
        """Send a whole request; its answer. Raises BrokenOffError, TooLongError.

        An answer without success is cut off at `longest_error` bytes, one with it is refused when
        it is longer than `longest_answer`.
        """
        if not self.usable or self._transport is None:
            raise BrokenOffError("the connection is closed")
        self._reply = Reply()
        self._limits = (longest_answer, longest_error)
        self._parser = httptools.HttpResponseParser(self)
        self._waiter = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        try:
            return await self._waiter
        finally:
            self._waiter = None

    def abort(self) -> None:
        """Close it at once, which tells the server to stop."""
        self._lost = True
        if self._transport is not None:
            self._transport.abort()

    # What the event loop says.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self._parser is None or self._waiter is None:
            self.abort()  # nobody asked
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(BrokenOffError(f"what came is no HTTP ({type(error).__name__}: {error})"))

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._lost = True
        reply = self._reply
        if error is None and reply.ends_with_the_connection:
            reply.complete = True
            self._answer(reply)
            return
        said = f"{type(error).__name__}: {error}" if error else "the server closed the connection"
        self._fail(BrokenOffError(said))

    # What the parser says.

    def on_header(self, name: bytes, value: bytes) -> None:
        self._reply.fields.append((name, value))

    def on_headers_complete(self) -> None:
        assert self._parser is not None  # noqa: S101 - it is the caller
        self._reply.status = self._parser.get_status_code()
        self._reply.headers_complete = True

    def on_body(self, part: bytes) -> None:
        reply = self._reply
        reply.add(part)
        longest_answer, longest_error = self._limits
        if 200 <= reply.status < 300:
            if reply.size > longest_answer:
                self._fail(TooLongError)
        elif reply.size > longest_error:
            self._answer(reply)

    def on_message_complete(self) -> None:
        assert self._parser is not None  # noqa: S101 - it is the caller
        if self._reply.status < 200:  # only a word in between; the answer is yet to come
            self._reply = Reply()
            return
        self._reply.complete = True
        self._reply.keep_alive = self._parser.should_keep_alive()
        self._answer(self._reply)

    def _answer(self, reply: Reply) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(reply)

    def _fail(self, error: Exception | type[Exception]) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)
        self.abort()
