"""The servers of an `ng_run` that is running elsewhere, found through its head."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import aiohttp
import msgspec

from rollgym.servers.client import ServerClient, http_session
from rollgym.servers.config import Address
from rollgym.servers.launch.directory import Directory
from rollgym.servers.launch.errors import NoHeadError
from rollgym.servers.launch.head import INSTANCES_PATH
from rollgym.servers.launch.instance_record import InstanceRecord

HEAD_TIMEOUT = 5.0
HEALTH_TIMEOUT = 3.0


class RemoteServers:
    """What the head said, and clients of the servers it named."""

    def __init__(self, records: Sequence[InstanceRecord]) -> None:
        self._records = list(records)
        self._directory = Directory({record.name: record.urls for record in records})

    def client(self, name: str) -> ServerClient:
        """Raises KeyError for a name that no server has."""
        return self._directory.client(name)

    def records(self) -> list[InstanceRecord]:
        return self._records

    async def close(self) -> None:
        await self._directory.close()


@asynccontextmanager
async def connected_to(head: Address) -> AsyncIterator[RemoteServers]:
    """The servers of the `ng_run` whose head this is. Raises NoHeadError."""
    servers = RemoteServers(await fetch_records(head))
    try:
        yield servers
    finally:
        await servers.close()


async def fetch_records(head: Address) -> list[InstanceRecord]:
    """What the head lists. Raises NoHeadError."""
    url = head.url + INSTANCES_PATH
    try:
        async with (
            asyncio.timeout(HEAD_TIMEOUT),
            http_session() as session,
            session.get(url) as response,
        ):
            body = await response.read()
            if response.status != 200:
                raise NoHeadError(_foreign(head, f"HTTP {response.status}"))
    except (aiohttp.ClientError, OSError) as error:
        raise NoHeadError(
            f"no ng_run answers at {head.url} ({_reason(error)}); start one with "
            '`ng_run "+config_paths=[…]"`, or pass the +head_server.port of the one that runs'
        ) from error
    try:
        return msgspec.json.decode(body, type=list[InstanceRecord])
    except msgspec.DecodeError as error:
        raise NoHeadError(_foreign(head, str(error))) from error


async def check_health(records: Sequence[InstanceRecord]) -> dict[str, str]:
    """Ask every process of every server how it is: `ok`, or what is wrong, by URL."""
    async with http_session() as session:
        urls = [url for record in records for url in record.urls]
        answers = await asyncio.gather(*(_health(url, session) for url in urls))
    return dict(zip(urls, answers, strict=True))


async def _health(url: str, session: aiohttp.ClientSession) -> str:
    try:
        async with asyncio.timeout(HEALTH_TIMEOUT), session.get(f"{url}/healthz") as response:
            return "ok" if response.status == 200 else f"HTTP {response.status}"
    except (aiohttp.ClientError, OSError) as error:
        return _reason(error)


def _reason(error: aiohttp.ClientError | OSError) -> str:
    match error:
        case TimeoutError():
            return "no answer in time"
        case aiohttp.ClientConnectorError():
            return "nothing listens there"
        case _:
            return f"{type(error).__name__}: {error}"


def _foreign(head: Address, reason: str) -> str:
    return (
        f"what answers at {head.url} is no ng_run ({reason}); pass the +head_server.port of the "
        "one that runs"
    )
