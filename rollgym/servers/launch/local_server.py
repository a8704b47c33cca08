"""A server object in this process: made from its class, started with or without a port, stopped.

Stopping is bounded: requests that are still running then are cut off, as they would be by the end
of the process.
"""

import asyncio
import logging
import os
from collections.abc import Coroutine
from contextlib import AsyncExitStack

from rollgym.servers.access import is_loopback
from rollgym.servers.config.instances import Address, ServerInstance
from rollgym.servers.config.plugins import load_server_class, load_settings
from rollgym.servers.launch.records import ServerStatus, StartError, StartResult
from rollgym.servers.replicas import ReplicaRoute
from rollgym.servers.server import Server, ServerDirectory
from rollgym.store import RefusedError
from rollgym.store.settings import hide_secrets_in_text

DRAIN_TIMEOUT = 1.5
CLOSE_TIMEOUT = 1.5
STOP_TIMEOUT = DRAIN_TIMEOUT + CLOSE_TIMEOUT + 0.5

_LOGGER = logging.getLogger(__name__)


def make_server(instance: ServerInstance, directory: ServerDirectory) -> Server:
    """The server of an instance, not yet started. Raises ConfigError."""
    server_class = load_server_class(instance)
    return server_class(instance.name, load_settings(instance, server_class), directory)


class LocalServer:
    """One server object, with a port where it has an address.

    `result` describes its settings for its record. Beyond loopback it requires the token. One of
    several replicas has a `route` to the others.
    """

    def __init__(
        self,
        server: Server,
        address: Address | None,
        result: StartResult,
        token: str | None = None,
        route: ReplicaRoute | None = None,
    ) -> None:
        self.status = ServerStatus.STARTING
        self.restarts = 0
        self.result: StartResult | None = result
        self._server = server
        self._address = address
        self._token = token
        self._route = route
        self._port = AsyncExitStack()
        self._started = False

    @property
    def pid(self) -> int:
        return os.getpid()

    async def start(self, within: float | None = None) -> None:
        """Return when the server is ready. Raises StartError, also after `within` seconds."""
        try:
            async with asyncio.timeout(within):
                await self._start()
        except TimeoutError as error:
            self.status = ServerStatus.FAILED
            raise StartError(f"{self._server.name} was not ready within {within:g} s") from error
        except StartError:
            self.status = ServerStatus.FAILED
            raise
        self.status = ServerStatus.READY

    async def stop(self) -> None:
        """Return within `STOP_TIMEOUT`. May be called in any state."""
        await self._bounded(self._port.aclose(), DRAIN_TIMEOUT, "still had running requests")
        if self._started:
            self._started = False
            await self._bounded(self._server.close(), CLOSE_TIMEOUT, "did not close")
        self.status = ServerStatus.STOPPED

    def kill(self) -> None:
        """Do nothing: the server has no process of its own."""

    async def _start(self) -> None:
        name, address = self._server.name, self._address
        try:
            await self._server.start()
            self._started = True
            if address is not None:
                from rollgym.servers.http_server import (  # noqa: PLC0415 - imports aiohttp
                    listening,
                )

                token = None if is_loopback(address.host) else self._token
                port = listening(self._server, address.host, address.port, token, self._route)
                await self._port.enter_async_context(port)
        except (Exception, asyncio.CancelledError) as error:
            if (task := asyncio.current_task()) and task.cancelling():
                raise  # the launcher cancelled it, not the plug-in
            if isinstance(error, RefusedError):
                raise StartError(f"{name} did not start: {error}") from error
            _LOGGER.exception("%s did not start", name, extra={"server": name})
            said = hide_secrets_in_text(f"{type(error).__name__}: {error}")
            raise StartError(f"{name} did not start: {said}") from error

    async def _bounded(
        self, ending: Coroutine[object, object, None], seconds: float, complaint: str
    ) -> None:
        """Wait for a plug-in's code no longer than this, even if it ignores cancellation."""
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
                complaint,
                seconds,
                extra=about,
            )
        elif (error := task.exception()) is not None:
            _LOGGER.error("%s failed to stop", self._server.name, exc_info=error, extra=about)
