"""One try: a request to an endpoint and its answer, over the sockets of one session.

The session keeps no cookies, follows no redirection, verifies certificates and sets no limit of its
own on connections. Cancelling a try closes its connection, which tells the server to stop.
"""

import time
from io import BytesIO

import aiohttp
from aiohttp import ClientResponse, ClientSession, ClientTimeout

from rollgym.records import DeadlineError, ModelMalformedError, ModelUnavailableError
from rollgym.servers.endpoints.answers import fault_of, json_object
from rollgym.servers.endpoints.endpoint import Endpoint
from rollgym.servers.endpoints.fault import Fault
from rollgym.servers.endpoints.settings import PoolSettings

# Servers built on uvicorn close a connection that was idle for 5 s. Closing it first avoids sending
# a request into a connection that is just going away.
_KEEP_ALIVE = 4.0
_ERROR_BODY_LIMIT = 1 << 16
# aiohttp warns of larger bodies that are given in one piece.
_ONE_PIECE = 1 << 20
# aiohttp rounds longer timeouts up to whole seconds, which would outlast a deadline.
_NEVER_ROUND = float("inf")


class Wire:
    """The session, made in the event loop that first needs it."""

    def __init__(self, settings: PoolSettings) -> None:
        self._settings = settings
        self._session: ClientSession | None = None
        self._usual_bounds = self._bounds(settings.request_timeout)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def ask(
        self, endpoint: Endpoint, method: str, path: str, body: bytes | None, seconds: float
    ) -> bytes | Fault:
        """One try within so many seconds: the JSON object of a successful answer, or a fault."""
        if seconds <= 0:
            return Fault(DeadlineError, "was not sent, because the deadline had passed")
        session = self._session or self._open()
        try:
            async with session.request(
                method,
                endpoint.url(path),
                data=body if body is None or len(body) <= _ONE_PIECE else BytesIO(body),
                headers=endpoint.headers,
                allow_redirects=False,
                timeout=self._within(seconds),
            ) as response:
                return await self._answer(endpoint, response)
        except (aiohttp.ClientError, OSError) as error:
            return self._broken(error, seconds)

    def _within(self, seconds: float) -> ClientTimeout:
        """The bounds of one try; most often the same ones."""
        usual = seconds >= self._settings.request_timeout
        return self._usual_bounds if usual else self._bounds(seconds)

    def _bounds(self, seconds: float) -> ClientTimeout:
        connect = self._settings.connect_timeout
        return ClientTimeout(total=seconds, connect=connect, ceil_threshold=_NEVER_ROUND)

    def _open(self) -> ClientSession:
        self._session = ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEP_ALIVE),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": "rollgym", "Accept": "application/json"},
        )
        return self._session

    async def _answer(self, endpoint: Endpoint, response: ClientResponse) -> bytes | Fault:
        status = response.status
        if 200 <= status < 300:
            body = await _read(response, self._settings.max_answer_bytes)
            if body is None:
                size = f"more than {self._settings.max_answer_bytes:,} bytes"
                return Fault(ModelMalformedError, f"answered {size}; max_answer_bytes allows more")
            return json_object(body, endpoint.redact)
        body = await _read(response, _ERROR_BODY_LIMIT) or b""
        return fault_of(status, response.headers, body, endpoint.redact, clock=time.time())

    def _broken(self, error: Exception, seconds: float) -> Fault:
        """What it means that there was no whole answer."""
        bounds = self._settings
        if isinstance(error, aiohttp.ConnectionTimeoutError):
            why = f"could not connect within {bounds.connect_timeout:g} s"
        elif isinstance(error, aiohttp.ClientConnectorError):
            why = f"could not connect: {_told(error.os_error)}; is the base URL right?"
        elif not isinstance(error, TimeoutError):
            why = f"broke off: {_told(error)}"
        elif seconds < bounds.request_timeout:
            return Fault(DeadlineError, f"had no answer after {seconds:.1f} s, at the deadline")
        else:
            why = f"had no answer within {bounds.request_timeout:g} s"
        return Fault(ModelUnavailableError, why)


async def _read(response: ClientResponse, limit: int) -> bytes | None:
    """The body; None where it is larger than the limit. What is not read is not kept either."""
    blocks: list[bytes] = []
    size = 0
    while block := await response.content.readany():
        size += len(block)
        if size > limit:
            return None
        blocks.append(block)
    return blocks[0] if len(blocks) == 1 else b"".join(blocks)


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".removesuffix(": ")
