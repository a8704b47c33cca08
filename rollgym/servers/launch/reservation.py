"""Ports that are known before anything listens on them.

Servers of different processes must know each other's addresses before either starts, and a server
that is restarted must get its port again. So all ports are bound at the beginning and stay bound.
The kernel lets a second socket listen there while the first only holds the place (both set
SO_REUSEADDR), and gives the port to nobody else.
"""

import sys
from collections.abc import Iterable

from rollgym.servers.config import Address, InstanceConfig, listening_socket
from rollgym.servers.config.ports import port_advice
from rollgym.servers.launch.errors import StartError

_ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared with, not bound


class ReservedPort:
    """A port of this machine, held until it is released."""

    def __init__(self, address: Address) -> None:
        """Port 0 is any free one. Raises OSError where the port cannot be had."""
        self._socket = listening_socket(address)
        self.address = Address(address.host, self._socket.getsockname()[1])
        if sys.platform != "linux":  # where no second socket could bind beside this one
            self.release()

    @property
    def url(self) -> str:
        """Where a client on this machine finds it."""
        host = _ANYWHERE.get(self.address.host, self.address.host)
        return Address(host, self.address.port).url

    def release(self) -> None:
        self._socket.close()


class Reservations:
    """The ports of all servers of a run."""

    def __init__(self, instances: Iterable[InstanceConfig]) -> None:
        """Raises StartError where a port cannot be had."""
        self._ports: dict[str, list[ReservedPort]] = {}
        try:
            for instance in instances:
                self._reserve(instance)
        except BaseException:
            self.release()
            raise

    def of(self, name: str) -> list[ReservedPort]:
        """One for each process of the server; none where it needs none."""
        return self._ports.get(name, [])

    def urls(self) -> dict[str, list[str]]:
        """Where each server can be reached."""
        return {name: [port.url for port in ports] for name, ports in self._ports.items()}

    def release(self) -> None:
        for ports in self._ports.values():
            for port in ports:
                port.release()

    def _reserve(self, instance: InstanceConfig) -> None:
        held = self._ports.setdefault(instance.name, [])
        for port in instance.ports or (0,) * instance.processes:
            address = Address(instance.host, port)
            try:
                held.append(ReservedPort(address))
            except OSError as error:
                raise StartError(
                    f"{instance.source}: {instance.name}: cannot listen on {instance.host} port "
                    f"{port} ({error.strerror or error}); {port_advice(address)}"
                ) from error
