"""Requests to a browser server, and what becomes of their answers.

A request has a deadline, of which the server is told: it answers within that time, and a little
later we stop waiting. An answer is read as the type that is due, or raised as the error that it
reports. Where there is none, or none that can be read (a proxy's page, half a body, another
program), nobody knows what the server did: that is a ServerUnreachableError. A request that may be
made twice is then repeated a few times inside its deadline.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

import aiohttp
import msgspec
from yarl import URL

from rollgym.records.failure import shorten
from rollgym.servers.context import TIMEOUT_HEADER, seconds_left
from rollgym.servers.limit import Limit
from webgym.browser.contract.answers import Picture
from webgym.browser.contract.errors import (
    WIRE_ERRORS,
    ErrorBody,
    ServerUnreachableError,
    StepDeadlineError,
    error_named,
)

SLACK = 5.0
"""How much longer than the server we wait for its answer."""
REPEATS = (0.1, 0.3, 1.0)
"""The pauses before a request is made again."""
CONNECT_SECONDS = 10.0
KEEPALIVE_SECONDS = 10.0
LONGEST_RETRY_AFTER = 3600.0
LARGEST_ANSWER = 2**26
EXCERPT = 300

T = TypeVar("T")
_SIGNATURES = {"image/png": b"\x89PNG", "image/jpeg": b"\xff\xd8\xff", "image/webp": b"RIFF"}
_ERROR = msgspec.json.Decoder(ErrorBody)
_KNOWN_TYPES = frozenset(kind.type for kind in WIRE_ERRORS)


class Answer(NamedTuple):
    """What came back, unread."""

    status: int
    media_type: str
    retry_after: str
    body: bytes


Reader = Callable[[Answer], T]
"""Raises the error that the answer reports, or ServerUnreachableError where it makes no sense."""


class Caller:
    """Requests to the server at `url`, over at most so many connections at a time."""

    def __init__(
        self, url: str, headers: Mapping[str, str], deadline_seconds: float, connections: int
    ) -> None:
        self._url = URL(url.rstrip("/"))
        if self._url.scheme not in {"http", "https"} or not self._url.host:
            raise ValueError(f"{url!r} is no address of a browser server: give http://HOST:PORT")
        self.deadline_seconds = deadline_seconds
        self._headers = headers
        self._connections = connections
        self._http: aiohttp.ClientSession | None = None

    def open(self) -> None:
        self._http = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=self._connections, keepalive_timeout=KEEPALIVE_SECONDS, ttl_dns_cache=300
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
        )

    async def close(self) -> None:
        if self._http is not None:
            await self._http.close()
            self._http = None

    async def ask(
        self,
        method: str,
        path: str,
        read: Reader[T],
        query: Mapping[str, str] | None = None,
        *,
        body: bytes | None = None,
        within: float | None = None,
        repeatable: bool = False,
    ) -> T:
        """The answer, read. The time is that of the rollout we work for, if that ends earlier.

        Raises what the answer reports, ServerUnreachableError, or StepDeadlineError where the
        rollout's time is up.
        """
        loop = asyncio.get_running_loop()
        usual = self.deadline_seconds if within is None else within
        seconds = seconds_left(usual)
        deadline = loop.time() + seconds
        for pause in (*REPEATS, None) if repeatable else (None,):
            left = deadline - loop.time()
            if left <= 0:
                raise StepDeadlineError(f"there was no time left for {method} {path}")
            try:
                with Limit(left + SLACK if seconds == usual else left):
                    return read(await self._send(method, path, query or {}, body, left))
            except TimeoutError as cause:
                kind = ServerUnreachableError if seconds == usual else StepDeadlineError
                raise kind(
                    f"{self._url} gave no answer to {method} {path} within {left:.1f} s"
                ) from cause
            except ServerUnreachableError:
                if pause is None or loop.time() + pause >= deadline:
                    raise
                await asyncio.sleep(pause)
        raise AssertionError("the last attempt returns or raises")

    async def _send(
        self, method: str, path: str, query: Mapping[str, str], body: bytes | None, seconds: float
    ) -> Answer:
        if self._http is None:
            raise RuntimeError("the client is not open: use it in an `async with` block")
        headers = {**self._headers, TIMEOUT_HEADER: f"{seconds:.3f}"}
        if body is not None:
            headers["content-type"] = "application/json"
        url = (self._url / path.lstrip("/")).with_query(query)
        try:
            async with self._http.request(
                method, url, data=body, headers=headers, allow_redirects=False
            ) as response:
                given = await _bounded_body(response)
                retry_after = response.headers.get("retry-after", "")
                return Answer(response.status, response.content_type, retry_after, given)
        except (aiohttp.ClientError, OSError) as error:
            nobody = isinstance(error, aiohttp.ClientConnectorError)
            hint = ": `rollgym browser serve` starts a server" if nobody else ""
            why = f"({type(error).__name__}: {error}){hint}"
            raise ServerUnreachableError(
                f"{self._url} did not answer {method} {path} {why}"
            ) from error


def reader(wanted: type[T]) -> Reader[T]:
    """Reads JSON as this type."""
    decoder = msgspec.json.Decoder(wanted)

    def read(answer: Answer) -> T:
        if answer.status != 200:
            raise _reported(answer)
        try:
            return decoder.decode(answer.body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise _unreadable(answer, str(error)) from error

    return read


def picture_reader(media_type: str) -> Reader[Picture]:
    """Reads a picture of this type."""

    def read(answer: Answer) -> Picture:
        if answer.status != 200:
            raise _reported(answer)
        begins_well = answer.body.startswith(_SIGNATURES[media_type])
        if answer.media_type != media_type or not begins_well:
            raise _unreadable(answer, f"it is no {media_type}")
        return Picture(media_type, answer.body)

    return read


async def _bounded_body(response: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    async for block in response.content.iter_any():
        body += block
        if len(body) > LARGEST_ANSWER:
            raise ServerUnreachableError(f"{response.url} answers over {LARGEST_ANSWER} bytes")
    return bytes(body)


def _reported(answer: Answer) -> Exception:
    retry_after = _seconds(answer.retry_after)
    try:
        fault = _ERROR.decode(answer.body).error
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _unreadable(answer, "it is no answer of a browser server", retry_after)
    if answer.status >= 500 and fault.type not in _KNOWN_TYPES:
        return _unreadable(answer, "the server broke", retry_after)
    return error_named(fault.type, fault.message, retry_after)


def _unreadable(
    answer: Answer, why: str, retry_after: float | None = None
) -> ServerUnreachableError:
    size = len(answer.body)
    excerpt = shorten(answer.body[: 4 * EXCERPT].decode("utf-8", "replace"), EXCERPT)
    return ServerUnreachableError(
        f"{why}: HTTP {answer.status}, {size} bytes of {answer.media_type}: {excerpt!r}",
        retry_after=retry_after,
    )


def _seconds(text: str) -> float | None:
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if 0 <= seconds <= LONGEST_RETRY_AFTER else None
