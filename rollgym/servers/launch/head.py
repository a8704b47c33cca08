"""The head: one address at which the servers of a run can be asked for.

`GET /server_instances` lists them; `GET /healthz` says that the launcher is alive.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec
from aiohttp import web

from rollgym.servers.config import Address
from rollgym.servers.config.ports import head_advice
from rollgym.servers.launch.errors import StartError
from rollgym.servers.launch.instance_record import InstanceRecord

INSTANCES_PATH = "/server_instances"
SHUTDOWN_TIMEOUT = 0.5


@asynccontextmanager
async def head_listening(
    address: Address, records: Callable[[], list[InstanceRecord]]
) -> AsyncIterator[None]:
    """Answer at this address until the end of the block. Raises StartError where it is taken."""

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
