"""One try: a request to an endpoint and its answer, over a connection that others used before.

No cookies, no redirections, no compression, certificates verified, and no limit on the number of
connections: who may send a request at all is decided before. Cancelling a try closes its
connection, which tells the server to stop.
"""

import asyncio
import ssl
import time
from collections import deque

from rollgym.records import DeadlineError, ModelMalformedError, ModelUnavailableError
from rollgym.servers.endpoints.answers import fault_of, json_object
from rollgym.servers.endpoints.connection import BrokenOffError, Connection, Reply, TooLongError
from rollgym.servers.endpoints.endpoint import Endpoint
from rollgym.servers.endpoints.fault import Fault
from rollgym.servers.endpoints.settings import PoolSettings
from rollgym.servers.limit import Limit

# Servers built on uvicorn close a connection that was idle for 5 s. Closing it first avoids sending
# a request into a connection that is just going away.
_KEEP_ALIVE = 4.0
_ERROR_BODY_LIMIT = 1 << 16


class _NotConnectedError(Exception):
    """The endpoint cannot be reached; says why."""


class Wire:
    """The connections of a pool, by endpoint; the one used last is used first."""

    def __init__(self, settings: PoolSettings) -> None:
        self._settings = settings
        self._idle: dict[Endpoint, deque[Connection]] = {}
        self._busy: set[Connection] = set()
        self._context: ssl.SSLContext | None = None

    async def close(self) -> None:
        for connection in (*self._busy, *(each for idle in self._idle.values() for each in idle)):
            connection.abort()
        self._idle.clear()

    async def ask(
        self, endpoint: Endpoint, method: str, path: str, body: bytes | None, seconds: float
    ) -> bytes | Fault:
        """One try within so many seconds: the JSON object of a successful answer, or a fault."""
        if seconds <= 0:
            return Fault(DeadlineError, "was not sent, because the deadline had passed")
        request = endpoint.request(method, path, body)
        try:
            with Limit(min(seconds, self._settings.request_timeout)):
                reply = await self._reply(endpoint, request)
            if 200 <= reply.status < 300:
                body = reply.unpacked(self._settings.max_answer_bytes)
                return json_object(body, endpoint.redact)
            body = reply.unpacked(_ERROR_BODY_LIMIT, cut=True)
        except (TooLongError, BrokenOffError, _NotConnectedError, TimeoutError) as error:
            return self._broken(error, seconds)
        clock = time.time()
        return fault_of(reply.status, reply.headers, body, endpoint.redact, clock=clock)

    async def _reply(self, endpoint: Endpoint, request: bytes) -> Reply:
        connection = self._take(endpoint) or await self._connect(endpoint)
        self._busy.add(connection)
        try:
            reply = await connection.ask(
                request,
                longest_answer=self._settings.max_answer_bytes,
                longest_error=_ERROR_BODY_LIMIT,
            )
        except BaseException:
            connection.abort()
            raise
        finally:
            self._busy.discard(connection)
        if reply.complete and reply.keep_alive and connection.usable:
            self._keep(endpoint, connection)
        else:
            connection.abort()
        return reply

    def _take(self, endpoint: Endpoint) -> Connection | None:
        idle, now = self._idle.get(endpoint), time.monotonic()
        while idle:
            connection = idle.pop()
            if connection.usable and now - connection.idle_since < _KEEP_ALIVE:
                return connection
            connection.abort()
        return None

    def _keep(self, endpoint: Endpoint, connection: Connection) -> None:
        now = connection.idle_since = time.monotonic()
        idle = self._idle.setdefault(endpoint, deque())
        idle.append(connection)
        while now - idle[0].idle_since >= _KEEP_ALIVE:
            idle.popleft().abort()

    async def _connect(self, endpoint: Endpoint) -> Connection:
        host, port, secure = endpoint.address
        loop, seconds = asyncio.get_running_loop(), self._settings.connect_timeout
        try:
            with Limit(seconds):
                _, connection = await loop.create_connection(
                    Connection, host, port, ssl=self._security() if secure else None
                )
        except TimeoutError as error:
            raise _NotConnectedError(f"could not connect within {seconds:g} s") from error
        except OSError as error:  # also what is wrong with a certificate
            said = f"could not connect: {type(error).__name__}: {error}"
            raise _NotConnectedError(f"{said}; is the base URL right?") from error
        return connection

    def _security(self) -> ssl.SSLContext:
        if self._context is None:
            self._context = ssl.create_default_context()
        return self._context

    def _broken(self, error: Exception, seconds: float) -> Fault:
        """What it means that there was no whole answer."""
        bounds = self._settings
        match error:
            case TooLongError():
                size = f"more than {bounds.max_answer_bytes:,} bytes"
                return Fault(ModelMalformedError, f"answered {size}; max_answer_bytes allows more")
            case _NotConnectedError():
                why = str(error)
            case BrokenOffError():
                why = f"broke off: {error}"
            case _ if seconds < bounds.request_timeout:
                return Fault(DeadlineError, f"had no answer after {seconds:.1f} s, at the deadline")
            case _:
                why = f"had no answer within {bounds.request_timeout:g} s"
        return Fault(ModelUnavailableError, why)
