"""Requests to a browser server.

A request has a deadline, which is also sent to the server: the server answers within that time, and
a little later the client stops waiting. Without an answer, or with one that
`webgym.browser.responses` cannot read, it is unknown what the server did: that is a
ServerUnreachableError. A request that may be sent twice is then repeated a few times before its
deadline.
"""

import asyncio
from collections.abc import Mapping
from typing import TypeVar

import aiohttp
from yarl import URL

from rollgym.servers.context import TIMEOUT_HEADER, seconds_left
from rollgym.servers.http_client import bounded_body
from rollgym.servers.limit import Limit
from webgym.browser.contract.errors import ServerUnreachableError, StepDeadlineError
from webgym.browser.responses import (
    CONNECT_SECONDS,
    LARGEST_ANSWER,
    REPEATS,
    SLACK,
    RawResponse,
    Reader,
)

KEEPALIVE_SECONDS = 10.0

T = TypeVar("T")


class BrowserHttpClient:
    """Requests to the server at `url`, over at most `connections` connections at a time."""

    def __init__(
        self, url: str, headers: Mapping[str, str], deadline_seconds: float, connections: int
    ) -> None:
        self._url = URL(url.rstrip("/"))
        if self._url.scheme not in {"http", "https"} or not self._url.host:
            raise ValueError(
                f"{url!r} is not the address of a browser server: give http://HOST:PORT"
            )
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
        """The decoded answer. The deadline of the current rollout counts, if it is earlier.

        Raises the error that the answer reports, ServerUnreachableError, or StepDeadlineError if
        the time of the rollout is over.
        """
        loop = asyncio.get_running_loop()
        default = self.deadline_seconds if within is None else within
        seconds = seconds_left(default)
        deadline = loop.time() + seconds
        for pause in (*REPEATS, None) if repeatable else (None,):
            left = deadline - loop.time()
            if left <= 0:
                raise StepDeadlineError(f"no time left for {method} {path}")
            try:
                with Limit(left + SLACK if seconds == default else left):
                    return read(await self._send(method, path, query or {}, body, left))
            except TimeoutError as cause:
                kind = ServerUnreachableError if seconds == default else StepDeadlineError
                raise kind(
                    f"{self._url} did not answer {method} {path} within {left:.1f} s"
                ) from cause
            except ServerUnreachableError:
                if pause is None or loop.time() + pause >= deadline:
                    raise
                await asyncio.sleep(pause)
        raise AssertionError("the last attempt returns or raises")

    async def _send(
        self, method: str, path: str, query: Mapping[str, str], body: bytes | None, seconds: float
    ) -> RawResponse:
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
                content = await bounded_body(response, LARGEST_ANSWER)
                retry_after = response.headers.get("retry-after", "")
                return RawResponse(response.status, response.content_type, retry_after, content)
        except (aiohttp.ClientError, OSError) as error:
            refused = isinstance(error, aiohttp.ClientConnectorError)
            hint = ": `rollgym browser serve` starts a server" if refused else ""
            why = f"({type(error).__name__}: {error}){hint}"
            raise ServerUnreachableError(
                f"{self._url} did not answer {method} {path} {why}"
            ) from error
