"""`rollgym browser status`: print the nodes of a browser server as a table."""

import asyncio
from collections.abc import Sequence

from rollgym.cli.process import aligned, say, say_error
from webgym.browser.contract.answers import ServerInfo
from webgym.browser.contract.errors import WIRE_ERRORS, ServerUnreachableError
from webgym.browser.http_client import BrowserHttpClient
from webgym.browser.master.registration import TOKEN_HEADER
from webgym.browser.responses import json_reader
from webgym.browser.settings import check_url, read_token

ANSWER_SECONDS = 10.0
UNHEALTHY = 1
_TITLES = ("node", "url", "health", "used", "capacity")


def show(url: str) -> int:
    """Print the table; returns the exit status. Raises BrowserSettingsError."""
    check_url("--url", url)
    try:
        info = asyncio.run(fetch_info(url, read_token()))
    except (ServerUnreachableError, *WIRE_ERRORS) as error:
        unreachable = isinstance(error, ServerUnreachableError)
        problem = f"no browser server answers at {url}" if unreachable else f"{url} answered"
        say_error(f"rollgym browser status: {problem}: {error}")
        return UNHEALTHY
    say("\n".join(table(info)))
    healthy = bool(info.nodes) and all(node.healthy for node in info.nodes)
    return 0 if healthy else UNHEALTHY


async def fetch_info(url: str, token: str | None) -> ServerInfo:
    """The answer of `GET /info` at this URL. Raises the errors of the contract."""
    headers = {} if token is None else {TOKEN_HEADER: token}
    client = BrowserHttpClient(url, headers, ANSWER_SECONDS, connections=1)
    client.open()
    try:
        return await client.ask("GET", "/info", json_reader(ServerInfo))
    finally:
        await client.close()


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
    free = info.available
    capacity = sum(node.capacity for node in info.nodes if node.healthy)
    return [*aligned(rows), f"{free} of {capacity} sessions are free; {info.waiting} requests wait"]
