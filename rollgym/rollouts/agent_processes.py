"""Tool-agent rollouts in worker processes: each of them has its own servers.

A server is an object that its agents call directly, so every worker process builds the servers of
the configuration in itself, as a collection in one process does. Some exist once for the run, in
processes of the driver, and the workers call them over HTTP: those with `isolated` or `processes`,
and those whose class says `once`, such as a language model in memory. With the servers of an
`ng_run` the workers only call them.

*Limits.* `max_concurrency` of a model is a limit of the run. Each process gets its part, and there
are no more processes than the smallest limit has requests. Attempts are spread evenly, so parts are
used evenly, and a request needs no word with the driver. The limits of servers that exist once need
no division.
"""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from rollgym.cluster.link import Link
from rollgym.cluster.worker_processes import WorkerProgram
from rollgym.engine import Worker
from rollgym.rollouts.rows import RepeatSeeds
from rollgym.rollouts.servers import CollectionServers, RunningServers
from rollgym.rollouts.worker import AgentWorker
from rollgym.servers.client import RecoveryWait
from rollgym.servers.config.instances import Address, ServerInstance
from rollgym.servers.config.loading import RunConfig, RunOptions
from rollgym.servers.config.plugins import find_folder, load_server_class, plugin_roots
from rollgym.servers.endpoints.settings import divided_limits, smallest_limit
from rollgym.servers.launch.addresses import Directory
from rollgym.servers.launch.fleet import TOKEN, Fleet, started_in_process
from rollgym.servers.launch.records import InstanceRecord
from rollgym.servers.server import ServerKind

PROGRAM = "rollgym.rollouts.agent_processes:agent_program"


class OwnServers(msgspec.Struct, frozen=True, tag="own"):
    """Servers that each worker process builds, and those that it only calls, `external`."""

    instances: list[ServerInstance]
    external: list[ServerInstance]
    token: str | None

    def located(self) -> RunConfig:
        """The configuration with the plug-ins of this machine, whose folders may be others."""
        cwd = Path.cwd()
        roots = plugin_roots(cwd)
        options = RunOptions({}, Address(), self.token, frozenset(), frozenset())
        instances = tuple(_located(each, roots) for each in self.instances)
        return RunConfig(instances, tuple(self.external), options, cwd)


class AgentOptions(msgspec.Struct, frozen=True):
    """What a worker process needs to make an `AgentWorker`."""

    servers: RunningServers | OwnServers
    success_threshold: float
    seeds: RepeatSeeds | None
    patience: float

    def encode(self) -> bytes:
        return msgspec.json.encode(self, enc_hook=str)

    @classmethod
    def decode(cls, encoded: bytes) -> "AgentOptions":
        return msgspec.json.decode(encoded, type=cls, dec_hook=lambda _, value: Path(str(value)))


def with_shared_servers(config: RunConfig) -> RunConfig:
    """The configuration for a driver: servers that exist once have processes of their own.

    Raises ConfigError where the code of a server cannot be loaded.
    """
    return msgspec.structs.replace(
        config, instances=tuple(map(_in_own_process_if_once, config.instances))
    )


class AgentPrograms:
    """What the worker processes of a collection run. `connected` are the servers of the driver."""

    def __init__(
        self,
        servers: CollectionServers,
        connected: Fleet | Directory,
        *,
        success_threshold: float,
        seeds: RepeatSeeds | None,
        patience: float,
    ) -> None:
        self._source = servers.source
        self._connected = connected
        self._options = AgentOptions(RunningServers([], None), success_threshold, seeds, patience)

    @property
    def process_limit(self) -> int | None:
        """The most worker processes for the limits of the models; None for any number."""
        if not isinstance(self._source, RunConfig):
            return None
        limits = [smallest_limit(each.settings) for each in _divided(self._source.instances)]
        return min((limit for limit in limits if limit is not None), default=None)

    def of(self, processes: int) -> WorkerProgram:
        """The program for this number of processes."""
        return WorkerProgram(PROGRAM, lambda number: self._options_of(number, processes))

    def _options_of(self, number: int, processes: int) -> bytes:
        described: RunningServers | OwnServers
        match self._source:
            case RunConfig():
                fleet = self._connected
                records = fleet.records() if isinstance(fleet, Fleet) else []
                described = _servers_of_worker(self._source, records, number, processes)
            case RunningServers():
                described = self._source
            case None:
                raise ValueError("the source of the servers is unknown")
        return msgspec.structs.replace(self._options, servers=described).encode()


@asynccontextmanager
async def agent_program(encoded: bytes, _: Link) -> AsyncIterator[Worker]:
    """The program of a worker process."""
    options = AgentOptions.decode(encoded)
    match options.servers:
        case OwnServers():
            connected: Any = started_in_process(options.servers.located())
        case RunningServers(records, token):
            from rollgym.servers.launch.head import connected_to  # noqa: PLC0415 - imports aiohttp

            connected = connected_to(records, token)
    async with connected as directory:
        yield AgentWorker(
            directory.client,
            success_threshold=options.success_threshold,
            seeds=options.seeds,
            recovery=RecoveryWait(options.patience),
        )


def _servers_of_worker(
    config: RunConfig, records: Iterable[InstanceRecord], number: int, processes: int
) -> OwnServers:
    """The servers that a worker process builds, with its part of every limit, and the others."""
    urls = {record.name: record.urls for record in records}
    token = config.options.token
    own, shared = [], list(config.external)
    for instance in config.instances:
        if instance.has_own_process:
            settings = instance.settings | ({TOKEN: token} if token else {})
            found = {"urls": urls[instance.name], "settings": settings}
            shared.append(msgspec.structs.replace(instance, **found))
        else:
            settings = instance.settings
            if instance.kind is ServerKind.MODEL:
                settings = divided_limits(settings, number, processes)
            # Ports of one process would be in use for the next one.
            own.append(msgspec.structs.replace(instance, settings=settings, port=None))
    return OwnServers(own, shared, token)


def _in_own_process_if_once(instance: ServerInstance) -> ServerInstance:
    if instance.has_own_process or not load_server_class(instance).once:
        return instance
    return msgspec.structs.replace(instance, isolated=True)


def _divided(instances: Iterable[ServerInstance]) -> Iterable[ServerInstance]:
    return (
        each for each in instances if each.kind is ServerKind.MODEL and not each.has_own_process
    )


def _located(instance: ServerInstance, roots: tuple[Path, ...]) -> ServerInstance:
    if instance.entrypoint.is_file():
        return instance
    entrypoint = str(instance.entrypoint.relative_to(instance.folder))
    folder = find_folder(instance.kind, instance.implementation, entrypoint, roots)
    if folder is None:
        return instance  # loading it gives the error message
    return msgspec.structs.replace(instance, folder=folder, entrypoint=folder / entrypoint)
