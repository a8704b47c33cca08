"""The transport to a server of another process, which writes requests to a socket."""

from io import BytesIO
from urllib.parse import quote

import aiohttp
from yarl import URL

from rollgym.servers.access import bearer
from rollgym.servers.context import outgoing_headers
from rollgym.servers.exchange import JSON, Answer, Request, format_cookies, parse_set_cookies
from rollgym.servers.replicas import NoAnswerError

CONNECT_TIMEOUT = 10.0
LARGEST_ANSWER = 2**28
ONE_PIECE = 2**20
"""The most bytes to write at once; for more, aiohttp logs a warning."""


class Http:
    """The transport to a URL. The connections belong to the session, which may be shared."""

    def __init__(self, url: str, session: aiohttp.ClientSession, token: str | None = None) -> None:
        self._url = url.rstrip("/")
        self._session = session
        self._token = bearer(token)

    async def __call__(self, request: Request, seconds: float) -> Answer:
        headers = outgoing_headers() | self._token
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
                body = await bounded_body(response, LARGEST_ANSWER)
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


async def bounded_body(response: aiohttp.ClientResponse, largest: int) -> bytes:
    """The body of an answer. Raises ClientPayloadError for more bytes than `largest`."""
    length = response.content_length
    if length is not None and length <= largest:
        return await response.read()
    body = bytearray()
    async for block in response.content.iter_any():
        body += block
        if len(body) > largest:
            raise aiohttp.ClientPayloadError(f"the answer has over {largest} bytes")
    return bytes(body)


def http_session() -> aiohttp.ClientSession:
    """Connections for any number of concurrent calls; `ServerClient` bounds the time of each."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=300, keepalive_timeout=30),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT),
        auto_decompress=True,
    )
