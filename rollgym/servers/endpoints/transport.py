"""One try: a request to an endpoint and its response, over a kept-alive connection.

There are no cookies, redirections or compression, and certificates are verified. The number of
connections has no limit here, because slots bound the requests. Cancelling a try closes its
connection, which tells the server to stop.
"""

import asyncio
import ssl
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from rollgym.records import DeadlineError, ModelMalformedError, ModelUnavailableError
from rollgym.servers.endpoints.connection import (
    EndpointConnection,
    EndpointResponse,
    IncompleteResponseError,
    TooLongError,
)
from rollgym.servers.endpoints.endpoint import BESIDE, Endpoint
from rollgym.servers.endpoints.failures import FailedTry, checked_object, failed_try_of, json_object
from rollgym.servers.endpoints.settings import EndpointPoolSettings
from rollgym.servers.endpoints.times import note_version
from rollgym.servers.limit import Limit

# Servers built on uvicorn close a connection that was idle for 5 s. Closing it earlier avoids
# sending a request into a connection that is being closed.
_KEEP_ALIVE = 4.0
_ERROR_BODY_LIMIT = 1 << 16


class _NotConnectedError(Exception):
    """The endpoint cannot be reached; says why."""


class EndpointTransport:
    """The connections of a pool, by endpoint; the most recently used one is used first."""

    def __init__(self, settings: EndpointPoolSettings, version_header: str | None = None) -> None:
        self._settings = settings
        # Read in every try, and looking for a field of a pydantic model takes long.
        self._timeout = settings.request_timeout
        self._longest = settings.max_answer_bytes
        self._version_header = version_header.lower().encode() if version_header else b""
        self._idle: dict[Endpoint, deque[EndpointConnection]] = {}
        self._busy: set[EndpointConnection] = set()
        self._context: ssl.SSLContext | None = None

    async def close(self) -> None:
        for connection in (*self._busy, *(each for idle in self._idle.values() for each in idle)):
            connection.abort()
        self._idle.clear()

    async def send(
        self,
        endpoint: Endpoint,
        method: str,
        path: str,
        body: bytes | None,
        seconds: float,
        *,
        in_parts: bool = False,
        read: Callable[[bytes], Any] = checked_object,
    ) -> "Any | EndpointStream | FailedTry":
        """Send one request; its JSON object, or why there is none after at most `seconds`.

        `read` reads the object, and raises RowError or msgspec.DecodeError. With `in_parts`, a
        stream of events is returned when it begins.
        """
        if seconds <= 0:
            return FailedTry(DeadlineError, "was not sent, because the deadline had passed")
        request = endpoint.request(method, path, body)
        try:
            with Limit(min(seconds, self._timeout)):
                response = await self._exchange(endpoint, request, in_parts=in_parts)
            if isinstance(response, EndpointStream):
                return response
            if 200 <= response.status < 300:
                if self._version_header and not path.startswith(BESIDE):
                    note_version(response.field(self._version_header))
                body = response.decompressed(self._longest)
                return json_object(body, endpoint.redact, read)
            body = response.decompressed(_ERROR_BODY_LIMIT, cut=True)
        except (TooLongError, IncompleteResponseError, _NotConnectedError, TimeoutError) as error:
            return self.failed(error, seconds)
        clock = time.time()
        return failed_try_of(response.status, response.headers, body, endpoint.redact, clock=clock)

    async def _exchange(
        self, endpoint: Endpoint, request: bytes, *, in_parts: bool
    ) -> "EndpointResponse | EndpointStream":
        connection = self._idle_connection(endpoint) or await self._connect(endpoint)
        self._busy.add(connection)
        try:
            response = await connection.send(
                request,
                longest_response=self._longest,
                longest_error=_ERROR_BODY_LIMIT,
                in_parts=in_parts,
            )
        except BaseException:
            connection.abort()
            self._busy.discard(connection)
            raise
        if in_parts and response.is_stream:
            return EndpointStream(self, endpoint, connection, response)
        self.release(endpoint, connection, response)
        return response

    def release(
        self, endpoint: Endpoint, connection: EndpointConnection, response: EndpointResponse
    ) -> None:
        """Keep the connection for the next request, or close it where it cannot be used again."""
        self._busy.discard(connection)
        if response.complete and response.keep_alive:
            self._keep(endpoint, connection)
        else:
            connection.abort()

    def _idle_connection(self, endpoint: Endpoint) -> EndpointConnection | None:
        idle, now = self._idle.get(endpoint), time.monotonic()
        while idle:
            connection = idle.pop()
            if connection.usable and now - connection.idle_since < _KEEP_ALIVE:
                return connection
            connection.abort()
        return None

    def _keep(self, endpoint: Endpoint, connection: EndpointConnection) -> None:
        now = connection.idle_since = time.monotonic()
        idle = self._idle.setdefault(endpoint, deque())
        idle.append(connection)
        while now - idle[0].idle_since >= _KEEP_ALIVE:
            idle.popleft().abort()

    async def _connect(self, endpoint: Endpoint) -> EndpointConnection:
        host, port, secure = endpoint.address
        loop, seconds = asyncio.get_running_loop(), self._settings.connect_timeout
        try:
            with Limit(seconds):
                _, connection = await loop.create_connection(
                    EndpointConnection, host, port, ssl=self._security() if secure else None
                )
        except TimeoutError as error:
            raise _NotConnectedError(f"could not connect within {seconds:g} s") from error
        except OSError as error:  # includes certificate errors
            said = f"could not connect: {type(error).__name__}: {error}"
            raise _NotConnectedError(f"{said}; check the base URL") from error
        return connection

    def _security(self) -> ssl.SSLContext:
        if self._context is None:
            self._context = ssl.create_default_context()
        return self._context

    def failed(self, error: Exception, seconds: float) -> FailedTry:
        """The failed try for a request without a complete response."""
        bounds = self._settings
        match error:
            case TooLongError():
                size = f"more than {bounds.max_answer_bytes:,} bytes"
                return FailedTry(
                    ModelMalformedError, f"answered {size}; max_answer_bytes allows more"
                )
            case _NotConnectedError():
                why = str(error)
            case IncompleteResponseError():
                why = f"got no complete response: {error}"
            case _ if seconds < bounds.request_timeout:
                return FailedTry(
                    DeadlineError, f"got no response after {seconds:.1f} s, at the deadline"
                )
            case _:
                why = f"got no response within {bounds.request_timeout:g} s"
        return FailedTry(ModelUnavailableError, why)


class EndpointStream:
    """A stream of events that has begun. Close it, also where it was read to its end."""

    def __init__(
        self,
        transport: EndpointTransport,
        endpoint: Endpoint,
        connection: EndpointConnection,
        response: EndpointResponse,
    ) -> None:
        self._transport = transport
        self._endpoint = endpoint
        self._connection = connection
        self._response = response

    async def next_part(self, seconds: float) -> bytes | FailedTry:
        """The next bytes, empty at the end; or why there are none after at most `seconds`."""
        try:
            with Limit(max(0.0, seconds)):
                return await self._connection.next_part()
        except (TooLongError, IncompleteResponseError) as error:
            return self._transport.failed(error, seconds)
        except TimeoutError:
            return FailedTry(DeadlineError, "did not end its stream in time")

    def close(self) -> None:
        """Release the connection; one whose stream has not ended is closed."""
        self._transport.release(self._endpoint, self._connection, self._response)
