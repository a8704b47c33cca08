"""The servers that a collection works with: those of an `ng_run`, or its own.

Their descriptions are known before anything starts; they can be called inside `connect`.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import msgspec

from rollgym.cluster.settings import ClusterSettings, server_places
from rollgym.servers.client import ServerClient
from rollgym.servers.config.descriptions import references
from rollgym.servers.config.instances import ServerInstance
from rollgym.servers.config.loading import Configuration, RunConfig, RunOptions
from rollgym.servers.config.plugins import load_server_class
from rollgym.servers.launch.addresses import Directory
from rollgym.servers.launch.fleet import Fleet, started_in_process
from rollgym.servers.launch.records import InstanceRecord, NoHeadError
from rollgym.servers.resources import ResourcesServer
from rollgym.servers.server import ServerConfig, ServerKind
from rollgym.store import SettingsIdentity, hide_secrets, settings_identity

Clients = Callable[[str], ServerClient]
_METRICS_HOOKS = ("compute_metrics", "get_key_metrics")


SharedServers = Callable[[RunConfig], RunConfig]
"""Gives servers that exist once processes of their own, which worker processes can call."""


class RunningServers(msgspec.Struct, frozen=True, tag="running"):
    """The servers of an `ng_run`, and their token."""

    records: list[InstanceRecord]
    token: str | None


class ServerDescription(msgspec.Struct, frozen=True):
    """A server as its configuration describes it, without secrets."""

    name: str
    kind: ServerKind
    implementation: str
    settings: dict[str, Any]
    identity: SettingsIdentity
    own_metrics: bool | None = None
    """Whether an environment has aggregate metrics of its own; None where that is unknown."""

    @property
    def is_external(self) -> bool:
        """Whether it runs elsewhere, and may be of another make."""
        return "url" in self.settings


class CollectionServers:
    """The servers of a collection, by name. `connect` gives clients of them, in a block."""

    def __init__(
        self,
        servers: Iterable[ServerDescription],
        connect: Callable[[], AbstractAsyncContextManager[Fleet | Directory]],
        source: RunConfig | RunningServers | None = None,
    ) -> None:
        """`source` is what other processes need to have the same servers."""
        self._servers = {server.name: server for server in servers}
        self.connect = connect
        self.source = source

    @property
    def names(self) -> list[str]:
        return list(self._servers)

    @property
    def agents(self) -> list[str]:
        return [each.name for each in self._servers.values() if each.kind is ServerKind.AGENT]

    def identity(self, agents: Iterable[str]) -> dict[str, Any]:
        """The settings of these agents and of every server that they refer to, directly or not."""
        wanted, found = list(agents), {}
        while wanted:
            name = wanted.pop()
            server = self._servers.get(name)
            if server is not None and name not in found:
                found[name] = {server.kind: {server.implementation: server.identity}}
                wanted += (each for *_, each in references(server.settings, ()))
        return found

    def without_own_metrics(self, agents: Iterable[str]) -> list[str]:
        """The agents whose environment is known to have no metrics of its own."""
        environments = {agent: self.resources_server(agent) for agent in agents}
        return [
            agent
            for agent, name in environments.items()
            if name in self._servers and self._servers[name].own_metrics is False
        ]

    def resources_server(self, agent: str) -> str | None:
        """The environment of an agent; None where its configuration does not name one."""
        return self._named_by(agent, "resources_server")

    def used_by(self, agent: str) -> tuple[list[ServerDescription], list[ServerDescription]]:
        """The model and the environment of an agent, each where its configuration names one."""
        names = (self._named_by(agent, "model_server"), self.resources_server(agent))
        model, environment = ([self._servers[n]] if n in self._servers else [] for n in names)
        return model, environment

    def _named_by(self, agent: str, setting: str) -> str | None:
        server = self._servers.get(agent)
        reference = server.settings.get(setting) if server else None
        return reference.get("name") if isinstance(reference, dict) else None


def find_servers(
    config: Configuration,
    *,
    shared: SharedServers | None = None,
    cluster: ClusterSettings | None = None,
) -> CollectionServers:
    """The servers of a configuration, or those of an `ng_run`. Raises ConfigError, NoHeadError.

    With `shared`, worker processes use them too. Where `cluster` is one of Ray, it runs those that
    have processes of their own.
    """
    if config.options().values.get("config_paths"):
        own = config.servers(listening=False)
        return own_servers(shared(own) if shared else own, cluster)
    return running_servers(config.options())


def own_servers(config: RunConfig, cluster: ClusterSettings | None = None) -> CollectionServers:
    """Servers that run in this process inside `connect`, which raises StartError.

    Raises ConfigError where the code of a server cannot be loaded.
    """

    @asynccontextmanager
    async def started() -> AsyncIterator[Fleet]:
        async with (
            server_places(cluster) as places,
            started_in_process(config, places=places) as fleet,
        ):
            yield fleet

    described = map(_describe, [*config.instances, *config.external])
    return CollectionServers(described, started, config)


def running_servers(options: RunOptions) -> CollectionServers:
    """The servers of an `ng_run`, found through its head. Raises NoHeadError."""
    from rollgym.servers.launch.head import (  # noqa: PLC0415 - imports aiohttp
        connected_to,
        fetch_records,
    )

    try:
        records = asyncio.run(fetch_records(options.head, options.token))
    except NoHeadError as error:
        error.add_note("With config files (config_paths) this command runs the servers itself.")
        raise
    described = (
        ServerDescription(
            each.name,
            each.server_type,
            each.implementation,
            each.config,
            each.identity or settings_identity(each.config, ServerConfig, complete=False),
        )
        for each in records
    )
    source = RunningServers(records, options.token)
    return CollectionServers(
        described, lambda: connected_to(records, options.token, options.head), source
    )


def _describe(server: ServerInstance) -> ServerDescription:
    """Raises ConfigError where its code cannot be loaded."""
    declared, own_metrics = ServerConfig, None
    if not server.is_external:
        written = load_server_class(server)
        declared = written.config_type()
        if server.kind is ServerKind.RESOURCES:
            own_metrics = any(
                getattr(written, hook) is not getattr(ResourcesServer, hook)
                for hook in _METRICS_HOOKS
            )
    return ServerDescription(
        server.name,
        server.kind,
        server.implementation,
        hide_secrets(server.settings, declared),
        settings_identity(server.settings, declared, complete=not server.is_external),
        own_metrics,
    )
