"""Reserved ports, and clients of the servers of a run.

*Ports.* Servers of different processes must know each other's addresses before either starts, and a
restarted server must get the same port again. So all ports are bound at the beginning and stay
bound. The kernel lets a second socket listen on a port while the first only holds it (both set
SO_REUSEADDR), and gives the port to no other program.
"""

import asyncio
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from rollgym.servers.client import RequestHandler, ServerClient
from rollgym.servers.config.instances import Address, ServerInstance, listening_socket, port_advice
from rollgym.servers.launch.records import StartError
from rollgym.servers.replicas import Transport

if TYPE_CHECKING:
    import aiohttp

ANY_HOST = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared with, not bound


class Directory:
    """Clients of the servers of a run, for one process.

    Servers of this process are added as they are made; all others are called at their URLs.
    `tokens` has the tokens of those that require one.
    """

    def __init__(
        self, urls: Mapping[str, Sequence[str]], tokens: Mapping[str, str] | None = None
    ) -> None:
        self._urls = dict(urls)
        self._tokens = tokens or {}
        self._session: aiohttp.ClientSession | None = None
        self._clients: dict[str, ServerClient] = {}
        self._called: set[str] = set()
        self.moved: Callable[[Mapping[str, Sequence[str]]], object] = lambda _: None
        """Called with the URLs of servers that have other ones now."""

    def add(self, name: str, server: RequestHandler) -> None:
        """From now on the server of this name is called directly."""
        self._clients[name] = ServerClient(name, [server.handle])

    def client(self, name: str) -> ServerClient:
        """Raises KeyError for an unknown name."""
        if name not in self._clients:
            self._clients[name] = ServerClient(name, self._transports(name))
            self._called.add(name)
        return self._clients[name]

    def move(self, urls: Mapping[str, Sequence[str]]) -> None:
        """From now on these servers are called at these URLs; each has as many as before."""
        self._urls |= urls
        for name in self._called & urls.keys():
            self._clients[name].move(self._transports(name))
        self.moved(urls)

    async def until_lost(self) -> None:
        """Never return: other processes look after these servers."""
        await asyncio.get_running_loop().create_future()

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    def _transports(self, name: str) -> list[Transport]:
        from rollgym.servers.http_client import Http, http_session  # noqa: PLC0415

        if self._session is None:
            self._session = http_session()
        token = self._tokens.get(name)
        return [Http(url, self._session, token) for url in self._urls[name]]


class ReservedPort:
    """A port of this machine, held until it is released."""

    def __init__(self, address: Address) -> None:
        """Port 0 is any free one. Raises OSError where the port cannot be bound."""
        self._socket = listening_socket(address)
        self.address = Address(address.host, self._socket.getsockname()[1])
        if sys.platform != "linux":  # other systems let no second socket bind the port
            self.release()

    @property
    def url(self) -> str:
        """The URL for a client on this machine."""
        host = ANY_HOST.get(self.address.host, self.address.host)
        return Address(host, self.address.port).url

    def release(self) -> None:
        self._socket.close()


class Reservations:
    """The ports of all servers of a run."""

    def __init__(self, instances: Iterable[ServerInstance]) -> None:
        """Raises StartError where a port cannot be bound."""
        self._ports: dict[str, list[ReservedPort]] = {}
        try:
            for instance in instances:
                self._reserve(instance)
        except BaseException:
            self.release()
            raise

    def of(self, name: str) -> list[ReservedPort]:
        """One port for each process of the server; empty where it needs none."""
        return self._ports.get(name, [])

    def urls(self) -> dict[str, list[str]]:
        """The URLs of each server."""
        return {name: [port.url for port in ports] for name, ports in self._ports.items()}

    def release(self) -> None:
        for ports in self._ports.values():
            for port in ports:
                port.release()

    def _reserve(self, instance: ServerInstance) -> None:
        reserved = self._ports.setdefault(instance.name, [])
        for port in instance.ports or (0,) * instance.processes:
            address = Address(instance.host, port)
            try:
                reserved.append(ReservedPort(address))
            except OSError as error:
                raise StartError(
                    f"{instance.source}: {instance.name}: cannot listen on {instance.host} port "
                    f"{port} ({error.strerror or error}); {port_advice(address)}"
                ) from error
