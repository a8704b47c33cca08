"""The servers that a command works with: those of an `ng_run`, or its own."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

from rollgym.rollouts.roster import Roster, ServerDescription
from rollgym.servers.client import ServerClient
from rollgym.servers.config import (
    Configuration,
    RunConfig,
    RunOptions,
    ServerInstance,
    load_server_class,
)
from rollgym.servers.launch import NoHeadError, RemoteServers, fetch_records, started_in_process
from rollgym.servers.resources import ResourcesServer
from rollgym.servers.server import ServerConfig, ServerKind
from rollgym.store import hide_secrets, settings_identity

Clients = Callable[[str], ServerClient]


class ServersOfRun(Protocol):
    """Servers that are known, and can be called once `clients` is entered."""

    roster: Roster

    def clients(self) -> AbstractAsyncContextManager[Clients]:
        """Raises StartError where they are to be started."""


def find_servers(config: Configuration) -> ServersOfRun:
    """The servers of a configuration, or those of an `ng_run`. Raises ConfigError, NoHeadError."""
    if config.options().values.get("config_paths"):
        return OwnServers(config.servers(listening=False))
    return RunningServers(config.options())


class OwnServers:
    """Servers that run in this process while they are needed."""

    def __init__(self, config: RunConfig) -> None:
        known = [*config.instances, *config.external]
        self.roster = Roster(_described(each) for each in known)
        self._config = config

    @asynccontextmanager
    async def clients(self) -> AsyncIterator[Clients]:
        async with started_in_process(self._config) as fleet:
            yield fleet.client


def _described(server: ServerInstance) -> ServerDescription:
    """Raises ConfigError where its code cannot be loaded."""
    declared, own_metrics = ServerConfig, None
    if not server.is_external:
        written = load_server_class(server)
        declared = written.config_type()
        if server.kind is ServerKind.RESOURCES:
            hooks = ("compute_metrics", "get_key_metrics")
            own_metrics = any(
                getattr(written, hook) is not getattr(ResourcesServer, hook) for hook in hooks
            )
    return ServerDescription(
        server.name,
        server.kind,
        server.implementation,
        hide_secrets(server.settings, declared),
        settings_identity(server.settings, declared),
        own_metrics,
    )


class RunningServers:
    """The servers of an `ng_run`."""

    def __init__(self, options: RunOptions) -> None:
        """Raises NoHeadError."""
        try:
            self._records = asyncio.run(fetch_records(options.head))
        except NoHeadError as error:
            error.add_note("With +config_paths=[…] this command runs the servers itself.")
            raise
        self.roster = Roster(
            ServerDescription(
                each.name,
                each.server_type,
                each.implementation,
                each.config,
                each.identity or settings_identity(each.config, ServerConfig),
            )
            for each in self._records
        )

    @asynccontextmanager
    async def clients(self) -> AsyncIterator[Clients]:
        servers = RemoteServers(self._records)
        try:
            yield servers.client
        finally:
            await servers.close()
