"""All servers of a run, started and stopped as one.

By default they are objects of this process and call each other directly. A server with `isolated`
or `processes` gets separate processes; calls between processes use HTTP, so then the servers of
this process get ports as well, as they do where external servers take part.

*Clusters.* With `places`, processes of servers run where a cluster has room (`ServerPlaces`). Their
addresses are known once all have a place. A process that is placed again has another address, and
every process of the run learns it.

*Order.* Plug-ins are imported, settings checked and ports bound before anything starts. Then all
servers start at the same time, and the first failure ends the start of all. They also stop at the
same time, within `STOP_BOUND` seconds.
"""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from urllib.parse import urlsplit

from rollgym.servers.access import is_loopback
from rollgym.servers.client import ServerClient
from rollgym.servers.config.instances import Address, ServerInstance
from rollgym.servers.config.loading import RunConfig
from rollgym.servers.config.problems import ConfigError, Problems
from rollgym.servers.launch.addresses import Directory, Reservations
from rollgym.servers.launch.local_server import LocalServer, make_server
from rollgym.servers.launch.logs import current_level
from rollgym.servers.launch.places import ServerPlace, ServerPlaces, for_cluster
from rollgym.servers.launch.records import (
    InstanceRecord,
    Moved,
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
        self,
        config: RunConfig,
        *,
        serving: bool,
        announce: Announce = _LOGGER.warning,
        places: ServerPlaces | None = None,
    ) -> None:
        """Raises ConfigError for plug-ins that cannot be used, StartError for ports in use.

        `serving` gives every server a port. `announce` is called with a message when a process dies
        or is ready again. With `places`, servers with processes of their own run there.
        """
        if places is not None:
            config = for_cluster(config, places)
        self._config = config
        self._cluster = places
        self._places: dict[str, list[ServerPlace]] = {}
        self.moved: Callable[[Mapping[str, Sequence[str]]], object] = lambda _: None
        """Called with the URLs of servers that have other ones now."""
        serving = serving or any(instance.has_own_process for instance in config.instances)
        here = [each for each in config.instances if not self._is_placed(each)]
        self._ports = Reservations(here if serving or config.external else ())
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
        await self._find_places(within)
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
        for places in self._places.values():
            for place in places:
                place.close()

    def move(self, urls: Mapping[str, Sequence[str]]) -> None:
        """Tell every process of the run that these servers have other URLs now."""
        self._directory.move(urls)
        line = Moved(urls).to_line()
        for members in self._members.values():
            for member in members:
                if isinstance(member, ServerProcess):
                    member.send(line)
        self.moved(urls)

    def _is_placed(self, instance: ServerInstance) -> bool:
        return self._cluster is not None and instance.has_own_process

    async def _find_places(self, within: float) -> None:
        """Wait until every process has a place. Raises StartError."""
        places = [(name, place) for name, found in self._places.items() for place in found]
        if not places:
            return
        finding = [asyncio.ensure_future(place.find()) for _, place in places]
        try:
            await asyncio.wait(finding, timeout=within, return_when=asyncio.FIRST_EXCEPTION)
            _raise_first(each.exception() for each in finding if each.done())
            late = [each for each, found in zip(places, finding, strict=True) if not found.done()]
        finally:
            for each in finding:
                each.cancel()
            await asyncio.wait(finding, timeout=STOP_BOUND)
        if late:
            raise StartError(
                "\n".join(
                    f"{name} has no place after {within:g} s: it waits for {place.wanted}"
                    for name, place in late
                )
            )
        self._directory.move(self._urls)
        if self._config.options.token is None:
            self._require_loopback()

    def _require_loopback(self) -> None:
        """Raises StartError where other machines could call a server, since there is no token."""
        for name in self._places:
            for url in self._urls[name]:
                if not is_loopback(urlsplit(url).hostname or ""):
                    raise StartError(
                        f"{name} listens at {url}, where other machines can connect, and there is "
                        "no token: set server_token in env.yaml, here and for its clients"
                    )

    def _move(self, name: str, number: int, address: Address) -> None:
        """A process of a server has this address from now on."""
        urls = list(self._urls[name])
        before, urls[number] = urls[number], address.url
        self._urls[name] = urls
        if before:
            self.move({name: urls})

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
        give_up = partial(self._give_up, instance.name)
        if self._cluster is None or not self._is_placed(instance):
            requests = (
                StartRequest(instance, number, port.address, urls, tokens, pid, level)
                for number, port in enumerate(ports)
            )
            return [ServerProcess(request, self._announce, give_up) for request in requests]
        # The place adds its address and its own process to the request.
        name, numbers = instance.name, range(instance.processes)
        self._urls[name] = [""] * instance.processes
        self._places[name] = found = [
            self._cluster.place(instance, each, partial(self._move, name, each)) for each in numbers
        ]
        return [
            ServerProcess(
                StartRequest(instance, number, Address(), urls, tokens, pid, level),
                self._announce,
                give_up,
                place.child,
            )
            for number, place in zip(numbers, found, strict=True)
        ]

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
        places = self._places.get(instance.name, [])
        nodes = [place.node for place in places] or [""] * len(members)
        pids = [member.pid for member in members if member.pid is not None]
        urls = list(self._urls.get(instance.name, ()))
        first = urlsplit(urls[0] if urls else "")
        result = next((member.result for member in members if member.result), None)
        config = result.config if result else hide_secrets(instance.settings, ServerConfig)
        return InstanceRecord(
            name=instance.name,
            process_name=instance.name,
            server_type=instance.kind,
            implementation=instance.implementation,
            host=first.hostname or "" if places else instance.host,
            port=ports[0].address.port if ports else first.port or 0,
            url=urls[0] if urls else "",
            urls=urls,
            pid=pids[0] if pids else None,
            pids=pids,
            status=min((member.status for member in members), key=_WORST_FIRST.index),
            restarts=sum(member.restarts for member in members),
            config=config,
            config_path=instance.source.file,
            replicas=[
                ReplicaRecord(url, member.pid, member.status, member.restarts, node)
                for url, member, node in zip(urls or [""], members, nodes, strict=True)
            ],
            identity=result.identity if result else None,
        )


@asynccontextmanager
async def started_in_process(
    config: RunConfig,
    *,
    within: float = START_TIMEOUT,
    announce: Announce = _LOGGER.warning,
    places: ServerPlaces | None = None,
) -> AsyncIterator[Fleet]:
    """Start the servers of a run for the block; they are called directly where possible.

    Raises ConfigError or StartError. Call it on the main thread.
    """
    fleet = Fleet(config, serving=False, announce=announce, places=places)
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
