"""All servers of a run, started and stopped as one.

By default they are objects of this process and call each other directly. A server with `isolated`
or `processes` gets processes of its own; between processes the calls are HTTP, so then the servers
of this process get ports as well, as they do where servers that somebody else runs take part.

*Order.* Plug-ins are imported, settings checked and ports bound before anything starts. Then all
start at the same time, and the first that fails ends the start of all. They stop at the same time,
too, within `STOP_BOUND` seconds.
"""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from rollgym.servers.client import ServerClient
from rollgym.servers.config import ConfigError, InstanceConfig, Problems, RunConfig
from rollgym.servers.launch.directory import Directory
from rollgym.servers.launch.errors import ServerLostError, StartError
from rollgym.servers.launch.instance_record import InstanceRecord, Status, external_record
from rollgym.servers.launch.local_server import LocalServer, make_server
from rollgym.servers.launch.logs import current_level
from rollgym.servers.launch.members import Announce, LocalMember, Member, ProcessMember
from rollgym.servers.launch.messages import Report, order_for
from rollgym.servers.launch.reservation import Reservations
from rollgym.servers.server import ServerConfig
from rollgym.store import RefusedError, hide_secrets

START_TIMEOUT = 60.0
STOP_BOUND = 7.0
SIMULTANEOUS = 0.2

_LOGGER = logging.getLogger(__name__)
_WORST_FIRST = (Status.FAILED, Status.RESTARTING, Status.STARTING, Status.STOPPED, Status.READY)


class Fleet:
    """The servers of a run. Make it on the event loop that it will run on."""

    def __init__(
        self, config: RunConfig, *, serving: bool, announce: Announce = _LOGGER.warning
    ) -> None:
        """Raises ConfigError for plug-ins that cannot be used, StartError for ports not to be had.

        `serving` gives every server a port. `announce` is told when a process dies or is back.
        """
        self._config = config
        serving = serving or any(instance.has_own_process for instance in config.instances)
        self._ports = Reservations(config.instances if serving or config.external else ())
        self._urls = self._ports.urls() | {each.name: each.urls for each in config.external}
        self._directory = Directory(self._urls)
        self._announce = announce
        self._loss: ServerLostError | None = None
        self._lost = asyncio.Event()
        try:
            self._members = self._make_members()
        except BaseException:
            self._ports.release()
            raise

    def client(self, name: str) -> ServerClient:
        """Raises KeyError for a name that no server has."""
        return self._directory.client(name)

    def records(self) -> list[InstanceRecord]:
        """How each server is now."""
        started = [self._record(instance) for instance in self._config.instances]
        return started + [external_record(each) for each in self._config.external]

    async def start(self, within: float = START_TIMEOUT) -> None:
        """Returns when all are ready. Raises StartError that names those that are not."""
        starting = [
            asyncio.ensure_future(member.start(within))
            for members in self._members.values()
            for member in members
        ]
        if not starting:  # all of them are somebody else's
            return
        try:
            await asyncio.wait(starting, return_when=asyncio.FIRST_EXCEPTION)
            if any(task.done() and task.exception() for task in starting):
                # What fails for the same reason, such as a time limit, is told together.
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
        """Returns within `STOP_BOUND` seconds, with no process left."""
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
        """End every process of the run at once."""
        for members in self._members.values():
            for member in members:
                member.kill()

    def _make_members(self) -> dict[str, list[Member]]:
        problems, members = Problems(), {}
        for instance in self._config.instances:
            try:
                members[instance.name] = self._members_of(instance)
            except ConfigError as error:
                problems.take(error.problems)
        problems.refuse()
        return members

    def _members_of(self, instance: InstanceConfig) -> list[Member]:
        ports = self._ports.of(instance.name)
        if not instance.has_own_process:
            server = make_server(instance, self._directory)
            self._directory.enter(instance.name, server)
            address = ports[0].address if ports else None
            report = Report.of(server, instance.settings)
            return [LocalMember(instance.name, LocalServer(server, address), report)]
        urls, level = self._urls, current_level()
        orders = (order_for(instance, port.address, urls, os.getpid(), level) for port in ports)
        return [
            ProcessMember(order, instance.restarts, self._announce, self._give_up)
            for order in orders
        ]

    def _give_up(self, loss: ServerLostError) -> None:
        self._loss = self._loss or loss
        self._lost.set()

    def _record(self, instance: InstanceConfig) -> InstanceRecord:
        members, ports = self._members[instance.name], self._ports.of(instance.name)
        pids = [member.pid for member in members if member.pid is not None]
        report = next((member.report for member in members if member.report), None)
        config = report.config if report else hide_secrets(instance.settings, ServerConfig)
        return InstanceRecord(
            name=instance.name,
            server_type=instance.kind,
            implementation=instance.implementation,
            host=instance.host,
            port=ports[0].address.port if ports else 0,
            url=ports[0].url if ports else "",
            urls=[port.url for port in ports],
            pid=pids[0] if pids else None,
            pids=pids,
            status=min((member.status for member in members), key=_WORST_FIRST.index),
            restarts=sum(member.restarts for member in members),
            config=config,
            config_path=instance.source.file,
            identity=report.identity if report else None,
        )


@asynccontextmanager
async def started_in_process(
    config: RunConfig, *, within: float = START_TIMEOUT, announce: Announce = _LOGGER.warning
) -> AsyncIterator[Fleet]:
    """The servers of a run for the length of the block, called directly where they can be.

    Raises ConfigError or StartError. Call it on the main thread.
    """
    fleet = Fleet(config, serving=False, announce=announce)
    try:
        await fleet.start(within)
        yield fleet
    finally:
        await fleet.stop()


def _raise_first(outcomes: Iterable[BaseException | None]) -> None:
    """One error for all; a bug rather than a refusal."""
    errors = [error for error in outcomes if error is not None]
    for error in errors:
        if not isinstance(error, RefusedError):
            raise error
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise StartError("\n".join(str(error) for error in errors))
