"""`rollgym browser status`: print the nodes of a browser server as a table."""

import asyncio
from collections.abc import Sequence

import aiohttp
import msgspec

from rollgym.cli.process import say, say_error
from webgym.browser.contract.answers import ServerInfo
from webgym.browser.contract.errors import ErrorBody
from webgym.browser.master.registration import TOKEN_HEADER
from webgym.browser.settings import check_url, read_token

ANSWER_SECONDS = 10.0
UNHEALTHY = 1
_TITLES = ("node", "url", "health", "used", "capacity")


class NoInfoError(Exception):
    """The server did not answer with its nodes."""


def show(url: str) -> int:
    """Print the table; returns the exit status. Raises BrowserSettingsError."""
    check_url("--url", url)
    try:
        info = asyncio.run(fetch_info(url, read_token()))
    except NoInfoError as error:
        say_error(f"rollgym browser status: {error}")
        return UNHEALTHY
    say("\n".join(table(info)))
    healthy = bool(info.nodes) and all(node.healthy for node in info.nodes)
    return 0 if healthy else UNHEALTHY


async def fetch_info(url: str, token: str | None) -> ServerInfo:
    """The answer of `GET /info` at this URL. Raises NoInfoError."""
    headers = {} if token is None else {TOKEN_HEADER: token}
    timeout = aiohttp.ClientTimeout(total=ANSWER_SECONDS)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as http,
            http.get(f"{url.rstrip('/')}/info", headers=headers) as response,
        ):
            body = await response.read()
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        raise NoInfoError(
            f"no browser server answers at {url} ({error or type(error).__name__}): start one with "
            "`rollgym browser serve`, or give another URL with --url"
        ) from error
    try:
        if response.status == 200:
            return msgspec.json.decode(body, type=ServerInfo)
        message = msgspec.json.decode(body, type=ErrorBody).message
    except msgspec.DecodeError as error:
        raise NoInfoError(
            f"the server at {url} is not a browser server: give another URL with --url"
        ) from error
    raise NoInfoError(f"{url} answered: {message}")


def table(info: ServerInfo) -> list[str]:
    """The lines of the table: the nodes, then the totals."""
    rows: list[Sequence[str]] = [_TITLES]
    rows += (
        (
            node.hash,
            node.url,
            "healthy" if node.healthy else "lost",
            str(len(node.instances)),
            str(node.capacity),
        )
        for node in info.nodes
    )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    up = [node for node in info.nodes if node.healthy]
    free, capacity = sum(node.available for node in up), sum(node.capacity for node in up)
    return [*lines, f"{free} of {capacity} sessions are free; {info.waiting} requests wait"]
