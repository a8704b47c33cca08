"""A connection to an endpoint: HTTP/1.1 requests, one after another.

Requests are written directly, because they are always the same few lines, and responses are parsed
by httptools, the parser of uvicorn. A general client such as aiohttp's does much more for each
request that a model endpoint does not need, and uses five times the CPU.

The body of a response is collected, or with `in_parts` handed over as it arrives. A connection
whose parts are not read stops receiving.
"""

import asyncio
import zlib
from typing import cast

import httptools
from multidict import CIMultiDict

_LENGTHS = (b"content-length", b"transfer-encoding")
_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS
_CLOSED = "the connection is closed"
_MOST_UNREAD = 1 << 18


class IncompleteResponseError(Exception):
    """The connection was lost during the response, or the bytes received are not HTTP."""


class TooLongError(Exception):
    """The response is longer than the limit."""


class EndpointResponse:
    """A response as far as it has been received."""

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

    def field(self, name: bytes) -> str:
        """The values of a field, with commas between them; `name` is in lower case."""
        size, found = len(name), b""
        for given, value in self.fields:
            if len(given) == size and given.lower() == name:
                found = found + b"," + value if found else value
        return found.decode("latin-1") if found else ""

    @property
    def ends_with_the_connection(self) -> bool:
        """Whether it has no length, so that it ends where the connection ends."""
        return self.headers_complete and not any(
            name.lower() in _LENGTHS for name, _ in self.fields
        )

    @property
    def is_stream(self) -> bool:
        """Whether it is a successful stream of events, and not compressed."""
        wanted = [value for name, value in self.fields if name.lower() == b"content-type"]
        compressed = any(name.lower() == b"content-encoding" for name, _ in self.fields)
        streams = any(value.lower().startswith(b"text/event-stream") for value in wanted)
        return 200 <= self.status < 300 and streams and not compressed

    def decompressed(self, longest: int, *, cut: bool = False) -> bytes:
        """The body, also of a server that compresses although the request forbids it.

        A body longer than `longest` is cut with `cut`, and raises TooLongError without. Raises
        IncompleteResponseError where the body cannot be decompressed.
        """
        encoding = self.field(b"content-encoding")
        if encoding in ("", "identity"):
            return self.body
        try:
            decompressor = zlib.decompressobj(_GZIP_OR_ZLIB)
            body = decompressor.decompress(self.body, longest + 1)
        except zlib.error as error:
            raise IncompleteResponseError(
                f"its {encoding!r} cannot be decompressed ({error})"
            ) from error
        if len(body) > longest and not cut:
            raise TooLongError
        return body[:longest]

    @property
    def unread(self) -> int:
        return sum(map(len, self._body))

    def add(self, part: bytes) -> None:
        self._body.append(part)
        self.size += len(part)

    def take(self) -> bytes:
        """The bytes that have arrived since the last call."""
        taken = self.body
        self._body = []
        return taken


class EndpointConnection(asyncio.Protocol):
    """One socket for one request at a time; after an error it cannot be used any more."""

    def __init__(self) -> None:
        self.idle_since = 0.0
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)  # of all responses, one after another
        self._response = EndpointResponse()
        self._limits = (0, 0)
        self._in_parts = self._paused = False
        self._error: Exception | None = None
        self._waiter: asyncio.Future[EndpointResponse] | None = None
        self._lost = False

    @property
    def usable(self) -> bool:
        return not self._lost and self._transport is not None and not self._transport.is_closing()

    async def send(
        self, request: bytes, *, longest_response: int, longest_error: int, in_parts: bool = False
    ) -> EndpointResponse:
        """Send a whole request; returns its response.

        Raises TooLongError for a successful response of more than `longest_response` bytes; others
        are cut after `longest_error` bytes. Raises IncompleteResponseError. With `in_parts`, a
        stream of events is returned when it begins, and `next_part` reads it.
        """
        transport = self._transport
        if self._lost or transport is None:
            raise self._error or IncompleteResponseError(_CLOSED)
        self._response = EndpointResponse()
        self._limits = (longest_response, longest_error)
        self._in_parts = in_parts
        self._waiter = self._loop.create_future()
        transport.write(request)
        try:
            return await self._waiter
        finally:
            self._waiter = None

    async def next_part(self) -> bytes:
        """The next bytes of a response in parts; empty at its end. Raises like `send`."""
        response = self._response
        if not (response.unread or response.complete or self._lost):
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        if part := response.take():
            if self._paused and self._transport is not None and self.usable:
                self._paused = False
                self._transport.resume_reading()
            return part
        if response.complete:
            return b""
        raise self._error or IncompleteResponseError(_CLOSED)

    def abort(self) -> None:
        """Close it at once, which tells the server to stop."""
        self._lost = True
        if self._transport is not None:
            self._transport.abort()

    # Called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._loop = asyncio.get_running_loop()  # asking for it costs a call of the system

    def data_received(self, data: bytes) -> None:
        if self._waiter is None and not self._in_parts:
            self.abort()  # there is no request to respond to
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            reason = f"the response is not HTTP ({type(error).__name__}: {error})"
            self._fail(IncompleteResponseError(reason))

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:
        aborted, self._lost = self._lost, True
        response = self._response
        if error is None and response.ends_with_the_connection and not aborted:
            response.complete = True
            self._finish(response)
            return
        said = f"{type(error).__name__}: {error}" if error else "the server closed the connection"
        self._fail(IncompleteResponseError(said))

    # Called by the parser.

    def on_header(self, name: bytes, value: bytes) -> None:
        self._response.fields.append((name, value))

    def on_headers_complete(self) -> None:
        response = self._response
        response.status = self._parser.get_status_code()
        response.headers_complete = True
        if self._in_parts:
            self._in_parts = response.is_stream
            if self._in_parts:
                self._finish(response)

    def on_body(self, part: bytes) -> None:
        response = self._response
        response.add(part)
        longest_response, longest_error = self._limits
        if 200 <= response.status < 300:
            if response.size > longest_response:
                self._fail(TooLongError())
            elif self._in_parts:
                self._finish(response)
                self._pause(response)
        elif response.size > longest_error:
            self._finish(response)

    def _pause(self, response: EndpointResponse) -> None:
        """Receive nothing more while too many parts are not read."""
        unread = response.unread > _MOST_UNREAD and not self._paused
        if unread and self._transport is not None and self.usable:
            self._paused = True
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        response = self._response
        if response.status < 200:  # an interim response; the final one follows
            self._response = EndpointResponse()
            return
        response.complete = True
        response.keep_alive = self._parser.should_keep_alive()
        self._in_parts = False
        self._finish(response)

    def _finish(self, response: EndpointResponse) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(response)

    def _fail(self, error: Exception) -> None:
        self._error = self._error or error
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)
        self.abort()
