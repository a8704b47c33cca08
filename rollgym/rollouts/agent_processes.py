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

import secrets
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from rollgym.cluster.link import Link
from rollgym.cluster.worker_processes import WorkerProgram
from rollgym.engine import Worker
from rollgym.rollouts.files import PreparedRow
from rollgym.rollouts.rows import RepeatSeeds
from rollgym.rollouts.servers import CollectionServers, RunningServers
from rollgym.rollouts.worker import AgentWorker
from rollgym.servers.access import is_loopback
from rollgym.servers.client import RecoveryWait
from rollgym.servers.config.instances import Address, ServerInstance
from rollgym.servers.config.loading import RunConfig, RunOptions
from rollgym.servers.config.plugins import load_server_class, located
from rollgym.servers.endpoints.settings import divided_limits, smallest_limit
from rollgym.servers.launch.addresses import ANY_HOST, Directory
from rollgym.servers.launch.fleet import TOKEN, Fleet, started_in_process
from rollgym.servers.launch.records import InstanceRecord, Moved, ServerStatus, StartError
from rollgym.servers.server import ServerKind

MOVED = "moved"
"""The topic of notes to workers: servers with other addresses, as a line of `Moved`."""
PROGRAM = "rollgym.rollouts.agent_processes:agent_program"


class OwnServers(msgspec.Struct, frozen=True, tag="own"):
    """Servers that each worker process builds, and those that it only calls, `external`."""

    instances: list[ServerInstance]
    external: list[ServerInstance]
    token: str | None

    def located(self) -> RunConfig:
        """The configuration with the plug-ins of this machine, whose folders may be others."""
        cwd = Path.cwd()
        options = RunOptions({}, Address(), self.token, frozenset(), frozenset())
        instances = tuple(located(each, cwd) for each in self.instances)
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


def with_shared_servers(config: RunConfig, *, on_cluster: bool = False) -> RunConfig:
    """The configuration for a driver: servers that exist once have processes of their own.

    On a cluster they are called over a network, so they need a token; without one in the
    configuration, the run has one of its own. Raises ConfigError where the code of a server cannot
    be loaded.
    """
    options = config.options
    if on_cluster and options.token is None:
        options = msgspec.structs.replace(options, token=secrets.token_hex(32))
    instances = tuple(map(_in_own_process_if_once, config.instances))
    return msgspec.structs.replace(config, instances=instances, options=options)


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

    def of(self, processes: int, host: str | None = None) -> WorkerProgram:
        """The program for this number of processes.

        `host` is the address of this machine where some of them run on other machines. Raises
        StartError for a server that those cannot reach.
        """
        source, connected = self._source, self._connected
        if isinstance(source, RunningServers):
            records = source.records
        else:
            records = connected.records() if isinstance(connected, Fleet) else []
            own = [each.name for each in source.instances if each.has_own_process] if source else []
            records = [each for each in records if each.name in own]
        if host is not None:
            records = [_reached_from_elsewhere(each, host) for each in records]

        def options(number: int) -> bytes:
            described: RunningServers | OwnServers
            match source:
                case RunConfig():
                    described = _servers_of_worker(source, records, number, processes)
                case RunningServers():
                    described = msgspec.structs.replace(source, records=records)
                case None:
                    raise ValueError("the source of the servers is unknown")
            return msgspec.structs.replace(self._options, servers=described).encode()

        return WorkerProgram(PROGRAM, options)


@asynccontextmanager
async def agent_program(encoded: bytes, link: Link) -> AsyncIterator[Worker]:
    """The program of a worker process."""
    options = AgentOptions.decode(encoded)
    match options.servers:
        case OwnServers():
            connected: Any = started_in_process(options.servers.located())
        case RunningServers(records, token):
            from rollgym.servers.launch.head import connected_to  # noqa: PLC0415 - imports aiohttp

            connected = connected_to(records, token)
    async with connected as directory:
        link.prepare(lambda task, attempt: PreparedRow.of(task, attempt, options.seeds).encode())
        link.on_note(lambda _, body: directory.move(Moved.from_line(body).urls))
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


def _reached_from_elsewhere(record: InstanceRecord, host: str) -> InstanceRecord:
    """The record with URLs for other machines. Raises StartError where it only has loopback."""
    if record.status is ServerStatus.EXTERNAL or any(each.node for each in record.replicas):
        return record
    if record.host in ANY_HOST:
        ports = [urlsplit(url).port or record.port for url in record.urls]
        return msgspec.structs.replace(record, urls=[Address(host, port).url for port in ports])
    if is_loopback(record.host):
        raise StartError(
            f"{record.name} listens on {record.host}, which the workers on other machines cannot "
            f"reach: give it `host: {host}`, and set server_token in env.yaml"
        )
    return record


def _in_own_process_if_once(instance: ServerInstance) -> ServerInstance:
    if instance.has_own_process or not load_server_class(instance).once:
        return instance
    return msgspec.structs.replace(instance, isolated=True)


def _divided(instances: Iterable[ServerInstance]) -> Iterable[ServerInstance]:
    return (
        each for each in instances if each.kind is ServerKind.MODEL and not each.has_own_process
    )
