"""A server object in this process, from its class to its port and back.

Stopping is bounded: whoever still waits for an answer then is cut off, as it would be by the end of
the process.
"""

import asyncio
import logging
from collections.abc import Coroutine
from contextlib import AsyncExitStack

from rollgym.servers.config import (
    Address,
    InstanceConfig,
    load_server_class,
    load_settings,
)
from rollgym.servers.http_server import listening
from rollgym.servers.launch.errors import StartError
from rollgym.servers.server import Server, ServerDirectory
from rollgym.store.settings import hide_secrets_in_text

DRAIN_TIMEOUT = 1.5
CLOSE_TIMEOUT = 1.5
STOP_TIMEOUT = DRAIN_TIMEOUT + CLOSE_TIMEOUT + 0.5

_LOGGER = logging.getLogger(__name__)


def make_server(instance: InstanceConfig, directory: ServerDirectory) -> Server:
    """The server of an instance, not yet started. Raises ConfigError."""
    server_class = load_server_class(instance)
    return server_class(instance.name, load_settings(instance, server_class), directory)


class LocalServer:
    """The life of one server object, with a port where it has an address."""

    def __init__(self, server: Server, address: Address | None) -> None:
        self._server = server
        self._address = address
        self._port = AsyncExitStack()
        self._started = False

    async def start(self) -> None:
        """Raises StartError."""
        name, address = self._server.name, self._address
        try:
            await self._server.start()
            self._started = True
            if address is not None:
                port = listening(self._server, address.host, address.port)
                await self._port.enter_async_context(port)
        except (Exception, asyncio.CancelledError) as error:
            if (task := asyncio.current_task()) and task.cancelling():
                raise  # it was we who gave up, and not the plug-in
            _LOGGER.exception("%s did not start", name, extra={"server": name})
            said = hide_secrets_in_text(f"{type(error).__name__}: {error}")
            raise StartError(f"{name} did not start: {said}") from error

    async def stop(self) -> None:
        """Returns within `STOP_TIMEOUT`."""
        await self._bounded(self._port.aclose(), DRAIN_TIMEOUT, "still had requests to answer")
        if self._started:
            self._started = False
            await self._bounded(self._server.close(), CLOSE_TIMEOUT, "did not close")

    async def _bounded(
        self, ending: Coroutine[object, object, None], seconds: float, trouble: str
    ) -> None:
        """Waits for a plug-in's own code no longer than this, even if it ignores cancellation."""
        task, about = asyncio.ensure_future(ending), {"server": self._server.name}
        try:
            await asyncio.wait({task}, timeout=seconds)
        finally:
            task.cancel()
        await asyncio.wait({task}, timeout=0.1)
        if not task.done() or task.cancelled():
            _LOGGER.warning(
                "%s %s within %g s and was cut off",
                self._server.name,
                trouble,
                seconds,
                extra=about,
            )
        elif (error := task.exception()) is not None:
            _LOGGER.error("%s failed to stop", self._server.name, exc_info=error, extra=about)
