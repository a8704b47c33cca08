"""Calling a server: one client over two transports.

`InProcess` hands the request to the server object, `Http` writes it to a socket. What the client
promises is the same: an answer, or a typed error when there is none in time or when the server
reports a failure. A caller that is cancelled cancels the work it asked for, over either transport.
"""

from collections.abc import Awaitable, Mapping, Sequence
from io import BytesIO
from typing import Protocol
from urllib.parse import quote

import aiohttp
import msgspec
from yarl import URL

from rollgym.records import DeadlineError, RolloutError
from rollgym.records.failure import shorten
from rollgym.servers.context import outgoing_headers, seconds_left
from rollgym.servers.cookies import CookieJar, format_cookies, parse_set_cookies
from rollgym.servers.exchange import JSON, Answer, Request
from rollgym.servers.faults import fault_in
from rollgym.servers.limit import Limit

LONGEST_WAIT = 3600.0
CONNECT_TIMEOUT = 10.0
EXCERPT = 500
LARGEST_ANSWER = 2**28
ONE_PIECE = 2**20
"""The most bytes to write at once; aiohttp warns of the time that more would take."""
_NO_COOKIES: Mapping[str, str] = {}


class NoAnswerError(Exception):
    """The server cannot be reached, or went away before it answered."""


class Transport(Protocol):
    """How requests reach one server."""

    def send(self, request: Request, seconds: float) -> Awaitable[Answer]:
        """The caller gives up after so many seconds. Raises NoAnswerError."""


class Handles(Protocol):
    """The side of a server that a transport in the same process needs."""

    def handle(self, request: Request, seconds: float) -> Awaitable[Answer]: ...


class InProcess:
    """To a server object of this process."""

    def __init__(self, server: Handles) -> None:
        self._server = server

    def send(self, request: Request, seconds: float) -> Awaitable[Answer]:
        return self._server.handle(request, seconds)


class Http:
    """To a server behind a URL. The connections belong to the session, which may be shared."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self._url = url.rstrip("/")
        self._session = session

    async def send(self, request: Request, seconds: float) -> Answer:
        headers = outgoing_headers()
        headers["content-type"] = JSON
        if request.cookies:
            headers["cookie"] = format_cookies(request.cookies)
        url = URL(self._url + quote(request.path), encoded=True)
        piecewise = len(request.body) > ONE_PIECE
        data = BytesIO(request.body) if piecewise else request.body or None
        try:
            async with self._session.request(
                request.method, url, data=data, headers=headers, allow_redirects=False
            ) as response:
                body = await _bounded_body(response)
                given = response.headers.getall("set-cookie", ())
                return Answer(
                    response.status,
                    body,
                    response.content_type,
                    parse_set_cookies(given),
                    {name.lower(): value for name, value in response.headers.items()},
                )
        except (aiohttp.ClientError, OSError) as error:
            raise NoAnswerError(f"{url}: {type(error).__name__}: {error}") from error


async def _bounded_body(response: aiohttp.ClientResponse) -> bytes:
    """The body. Raises NoAnswerError where it is larger than anybody would send on purpose."""
    body = bytearray()
    async for block in response.content.iter_any():
        body += block
        if len(body) > LARGEST_ANSWER:
            raise NoAnswerError(f"{response.url}: the answer is over {LARGEST_ANSWER} bytes long")
    return bytes(body)


def http_session() -> aiohttp.ClientSession:
    """Connections for any number of concurrent calls; the client bounds each call's time."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=300, keepalive_timeout=30),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT),
        auto_decompress=True,
    )


class ServerClient:
    """The calls that one server takes.

    A server of several processes has a transport for each; an episode stays with one of them,
    because that is where its session is.
    """

    def __init__(self, name: str, transports: Sequence[Transport]) -> None:
        self.name = name
        self._transports = transports
        self._next = 0

    def one(self) -> "ServerClient":
        """A client of one process of the server, the next in turn."""
        if len(self._transports) == 1:
            return self
        self._next = (self._next + 1) % len(self._transports)
        return ServerClient(self.name, [self._transports[self._next]])

    async def exchange(
        self,
        path: str,
        body: bytes,
        *,
        error: type[RolloutError],
        jar: CookieJar | None = None,
        within: float = LONGEST_WAIT,
        method: str = "POST",
        any_status: bool = True,
    ) -> Answer:
        """Ask, and get an answer, by default of any status.

        Raises `error` when there is no answer `within` these seconds, DeadlineError when there is
        none before the rollout's deadline, and the server's own error where it reports a failure.
        """
        # A copy: calls that run side by side share the jar, and their answers change it.
        request = Request(method, path, body, dict(jar.cookies) if jar else _NO_COOKIES)
        seconds = seconds_left(within)
        if seconds <= 0:
            raise DeadlineError(f"{self.name} was not asked for {path}: the time is up")
        try:
            with Limit(seconds):
                answer = await self._transports[0].send(request, seconds)
        except NoAnswerError as cause:
            raise error(f"{self.name} gave no answer: {cause}", retryable=True) from cause
        except TimeoutError as cause:
            raised = error if seconds >= within else DeadlineError
            raise raised(
                f"{self.name} gave no answer to {path} within {seconds:g} s", retryable=True
            ) from cause
        if jar and answer.cookies:
            jar.keep(answer.cookies)
        if answer.status < 300:
            return answer
        fault = fault_in(answer)
        if fault:
            raise fault
        if not any_status:
            raise error(
                f"{self.name} answered {path} with HTTP {answer.status}: "
                f"{shorten(answer.text, EXCERPT)}",
                retryable=True if answer.status >= 500 or answer.status == 429 else None,
                retry_after=_retry_after(answer.headers),
            )
        return answer

    def call(
        self,
        path: str,
        body: bytes,
        *,
        error: type[RolloutError],
        jar: CookieJar | None = None,
        within: float = LONGEST_WAIT,
        method: str = "POST",
    ) -> Awaitable[Answer]:
        """As `exchange`, but raises `error` also for an answer that is none of the 200s."""
        return self.exchange(
            path, body, error=error, jar=jar, within=within, method=method, any_status=False
        )

    async def post(self, path: str, value: object, jar: CookieJar | None = None) -> Answer:
        """Ask with a value that is yet to be written as JSON; for tests and small programs."""
        return await self.exchange(path, msgspec.json.encode(value), error=RolloutError, jar=jar)


def connect(server: Handles, name: str = "server") -> ServerClient:
    """A client of a server object of this process."""
    return ServerClient(name, [InProcess(server)])


def _retry_after(headers: Mapping[str, str]) -> float | None:
    try:
        return float(headers.get("retry-after", ""))
    except ValueError:
        return None
