"""All servers of a run, started and stopped as one.

By default they are objects of this process and call each other directly. A server with `isolated`
or `processes` gets separate processes; calls between processes use HTTP, so then the servers of
this process get ports as well, as they do where external servers take part.

*Order.* Plug-ins are imported, settings checked and ports bound before anything starts. Then all
servers start at the same time, and the first failure ends the start of all. They also stop at the
same time, within `STOP_BOUND` seconds.
"""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import partial
from urllib.parse import urlsplit

from rollgym.servers.client import ServerClient
from rollgym.servers.config.instances import ServerInstance
from rollgym.servers.config.loading import RunConfig
from rollgym.servers.config.problems import ConfigError, Problems
from rollgym.servers.launch.addresses import Directory, Reservations
from rollgym.servers.launch.local_server import LocalServer, make_server
from rollgym.servers.launch.logs import current_level
from rollgym.servers.launch.records import (
    InstanceRecord,
    ReplicaRecord,
    ServerLostError,
    ServerStatus,
    StartError,
    StartRequest,
    StartResult,
)
from rollgym.servers.launch.server_process import Announce, ServerProcess
from rollgym.servers.server import ServerConfig
from rollgym.store import RefusedError, hide_secrets

START_TIMEOUT = 60.0
TOKEN = "token"  # noqa: S105 - the name of a setting
STOP_BOUND = 7.0
SIMULTANEOUS = 0.2

_LOGGER = logging.getLogger(__name__)
_WORST_FIRST = list(ServerStatus)


class Fleet:
    """The servers of a run. Make it on the event loop that it will run on."""

    def __init__(
        self, config: RunConfig, *, serving: bool, announce: Announce = _LOGGER.warning
    ) -> None:
        """Raises ConfigError for plug-ins that cannot be used, StartError for ports in use.

        `serving` gives every server a port. `announce` is called with a message when a process dies
        or is ready again.
        """
        self._config = config
        serving = serving or any(instance.has_own_process for instance in config.instances)
        self._ports = Reservations(config.instances if serving or config.external else ())
        self._urls = self._ports.urls() | {each.name: each.urls for each in config.external}
        self._tokens = _tokens(config)
        self._directory = Directory(self._urls, self._tokens)
        self._announce = announce
        self._loss: ServerLostError | None = None
        self._lost = asyncio.Event()
        try:
            self._members = self._make_members()
        except BaseException:
            self._ports.release()
            raise

    def client(self, name: str) -> ServerClient:
        """Raises KeyError for an unknown name."""
        return self._directory.client(name)

    def records(self) -> list[InstanceRecord]:
        """The present state of each server."""
        started = [self._record(instance) for instance in self._config.instances]
        return started + [_external_record(each) for each in self._config.external]

    async def start(self, within: float = START_TIMEOUT) -> None:
        """Return when all are ready. Raises StartError that names those that are not."""
        starting = [
            asyncio.ensure_future(member.start(within))
            for members in self._members.values()
            for member in members
        ]
        if not starting:  # all of them are external
            return
        try:
            await asyncio.wait(starting, return_when=asyncio.FIRST_EXCEPTION)
            if any(task.done() and task.exception() for task in starting):
                # Failures with the same cause, such as a timeout, are reported together.
                await asyncio.wait(starting, timeout=SIMULTANEOUS)
        finally:
            for task in starting:
                task.cancel()
            await asyncio.wait(starting, timeout=STOP_BOUND)
        _raise_first(task.exception() for task in starting if not task.cancelled())

    async def until_lost(self) -> None:
        """Raises ServerLostError once a server has died more often than it may be restarted."""
        await self._lost.wait()
        if self._loss is not None:
            raise self._loss

    async def stop(self) -> None:
        """Return within `STOP_BOUND` seconds, when no process is left."""
        stopping = [
            asyncio.ensure_future(member.stop())
            for members in self._members.values()
            for member in members
        ]
        if stopping:
            await asyncio.wait(stopping, timeout=STOP_BOUND)
        self.kill()
        await self._directory.close()
        self._ports.release()

    def kill(self) -> None:
        """Kill every process of the run at once."""
        for members in self._members.values():
            for member in members:
                member.kill()

    def _make_members(self) -> dict[str, list[LocalServer | ServerProcess]]:
        problems, members = Problems(), {}
        for instance in self._config.instances:
            try:
                members[instance.name] = self._members_of(instance)
            except ConfigError as error:
                problems.extend(error.problems)
        problems.raise_if_any()
        return members

    def _members_of(self, instance: ServerInstance) -> list[LocalServer | ServerProcess]:
        ports = self._ports.of(instance.name)
        if not instance.has_own_process:
            server = make_server(instance, self._directory)
            self._directory.add(instance.name, server)
            address = ports[0].address if ports else None
            result, token = StartResult.of(server, instance.settings), self._config.options.token
            return [LocalServer(server, address, result, token)]
        urls, tokens, level, pid = self._urls, self._tokens, current_level(), os.getpid()
        requests = (
            StartRequest(instance, number, port.address, urls, tokens, pid, level)
            for number, port in enumerate(ports)
        )
        give_up = partial(self._give_up, instance.name)
        return [ServerProcess(request, self._announce, give_up) for request in requests]

    def _give_up(self, name: str, loss: ServerLostError) -> None:
        """A process is not restarted any more; a server lives as long as one of its processes."""
        members = self._members[name]
        left = sum(member.status is not ServerStatus.FAILED for member in members)
        if left:
            self._announce(f"{loss}; {left} of the {len(members)} processes of {name} go on")
            return
        self._loss = self._loss or loss
        self._lost.set()

    def _record(self, instance: ServerInstance) -> InstanceRecord:
        members, ports = self._members[instance.name], self._ports.of(instance.name)
        pids = [member.pid for member in members if member.pid is not None]
        urls = [port.url for port in ports]
        result = next((member.result for member in members if member.result), None)
        config = result.config if result else hide_secrets(instance.settings, ServerConfig)
        return InstanceRecord(
            name=instance.name,
            process_name=instance.name,
            server_type=instance.kind,
            implementation=instance.implementation,
            host=instance.host,
            port=ports[0].address.port if ports else 0,
            url=urls[0] if urls else "",
            urls=urls,
            pid=pids[0] if pids else None,
            pids=pids,
            status=min((member.status for member in members), key=_WORST_FIRST.index),
            restarts=sum(member.restarts for member in members),
            config=config,
            config_path=instance.source.file,
            replicas=[
                ReplicaRecord(url, member.pid, member.status, member.restarts)
                for url, member in zip(urls or [""], members, strict=True)
            ],
            identity=result.identity if result else None,
        )


@asynccontextmanager
async def started_in_process(
    config: RunConfig, *, within: float = START_TIMEOUT, announce: Announce = _LOGGER.warning
) -> AsyncIterator[Fleet]:
    """Start the servers of a run for the block; they are called directly where possible.

    Raises ConfigError or StartError. Call it on the main thread.
    """
    fleet = Fleet(config, serving=False, announce=announce)
    try:
        await fleet.start(within)
        yield fleet
    finally:
        await fleet.stop()


def _tokens(config: RunConfig) -> dict[str, str]:
    """The token of each server: that of the run, or the setting `token` of an external server."""
    own = {each.name: config.options.token for each in config.instances}
    external = {each.name: each.settings.get(TOKEN) for each in config.external}
    return {name: str(token) for name, token in (own | external).items() if token}


def _raise_first(outcomes: Iterable[BaseException | None]) -> None:
    """Raise one error for all; an unexpected error comes before a failed start."""
    errors = [error for error in outcomes if error is not None]
    for error in errors:
        if not isinstance(error, RefusedError):
            raise error
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise StartError("\n".join(str(error) for error in errors))


def _external_record(server: ServerInstance) -> InstanceRecord:
    """The record of a server that runs elsewhere."""
    address = urlsplit(server.urls[0])
    return InstanceRecord(
        name=server.name,
        process_name=server.name,
        server_type=server.kind,
        implementation=server.implementation,
        host=address.hostname or "",
        port=address.port or (443 if address.scheme == "https" else 80),
        url=server.urls[0],
        urls=server.urls,
        pid=None,
        pids=[],
        status=ServerStatus.EXTERNAL,
        restarts=0,
        config=hide_secrets(server.settings, ServerConfig),
        config_path=str(server.source),
        replicas=[ReplicaRecord(url, None, ServerStatus.EXTERNAL) for url in server.urls],
    )
