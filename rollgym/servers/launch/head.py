"""The head: one address that lists the servers of a run, and the client of it.

`GET /server_instances` lists the servers; `GET /healthz` says that the launcher is running.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import aiohttp
import msgspec
from aiohttp import web

from rollgym.servers.client import http_session
from rollgym.servers.config import Address
from rollgym.servers.config.instances import head_advice
from rollgym.servers.launch.addresses import Directory
from rollgym.servers.launch.records import InstanceRecord, NoHeadError, StartError

INSTANCES_PATH = "/server_instances"
SHUTDOWN_TIMEOUT = 0.5
HEAD_TIMEOUT = 5.0
HEALTH_TIMEOUT = 3.0


@asynccontextmanager
async def head_listening(
    address: Address, records: Callable[[], list[InstanceRecord]]
) -> AsyncIterator[None]:
    """Serve the listing at this address during the block. Raises StartError."""

    async def instances(_: web.Request) -> web.Response:
        return _json(records())

    async def health(_: web.Request) -> web.Response:
        return _json({"status": "ok"})

    application = web.Application()
    application.router.add_get(INSTANCES_PATH, instances)
    application.router.add_get("/healthz", health)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=SHUTDOWN_TIMEOUT)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, address.host, address.port).start()
        except OSError as error:
            raise StartError(
                f"the head server cannot listen at {address.url} ({error.strerror or error}); "
                f"{head_advice(address)}"
            ) from error
        yield
    finally:
        await runner.cleanup()


def _json(value: object) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), content_type="application/json")


@asynccontextmanager
async def connected_to(records: Sequence[InstanceRecord]) -> AsyncIterator[Directory]:
    """Clients of the servers that a head lists, for the block."""
    directory = Directory({record.name: record.urls for record in records})
    try:
        yield directory
    finally:
        await directory.close()


async def fetch_records(head: Address) -> list[InstanceRecord]:
    """The listing of the head. Raises NoHeadError."""
    url = head.url + INSTANCES_PATH
    try:
        async with (
            asyncio.timeout(HEAD_TIMEOUT),
            http_session() as session,
            session.get(url) as response,
        ):
            body = await response.read()
            if response.status != 200:
                raise NoHeadError(_not_ng_run(head, f"HTTP {response.status}"))
    except (aiohttp.ClientError, OSError) as error:
        raise NoHeadError(
            f"no ng_run answers at {head.url} ({_reason(error)}); start one with "
            '`ng_run "+config_paths=[…]"`, or pass the +head_server.port of a running one'
        ) from error
    try:
        return msgspec.json.decode(body, type=list[InstanceRecord])
    except msgspec.DecodeError as error:
        raise NoHeadError(_not_ng_run(head, str(error))) from error


async def check_health(records: Sequence[InstanceRecord]) -> dict[str, str]:
    """The health of every process of every server by URL: `ok`, or what is wrong."""
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


def _not_ng_run(head: Address, reason: str) -> str:
    return (
        f"the server at {head.url} is not an ng_run ({reason}); pass the +head_server.port of a "
        "running one"
    )
