"""What a launcher needs of a cluster on which the processes of servers run."""

from collections.abc import Callable
from typing import Protocol

import msgspec

from rollgym.servers.access import is_loopback
from rollgym.servers.config.instances import Address, ServerInstance
from rollgym.servers.config.loading import RunConfig
from rollgym.servers.launch.records import StartError, StartRequest
from rollgym.servers.launch.server_process import Child


class ServerPlace(Protocol):
    """Where one process of a server runs on a cluster; `find` may take long."""

    @property
    def node(self) -> str:
        """The name of its machine."""

    @property
    def wanted(self) -> str:
        """What it needs, for a sentence."""

    async def find(self) -> object:
        """Wait until there is a place. Raises StartError."""

    def child(self, request: StartRequest) -> Child:
        """A process, not yet started."""

    def close(self) -> None:
        """Give the place back, and end what runs there."""


class ServerPlaces(Protocol):
    """A cluster that has room for servers."""

    @property
    def host(self) -> str | None:
        """The address of this machine for the others; None where there are no others."""

    def place(
        self, instance: ServerInstance, number: int, moved: Callable[[Address], None]
    ) -> ServerPlace:
        """A place for a process of a server. `moved` is called with each address that it gets."""


def for_cluster(config: RunConfig, places: ServerPlaces) -> RunConfig:
    """The configuration for a cluster: its nodes can reach the servers that stay here.

    Raises StartError for servers whose port cannot be kept.
    """
    return msgspec.structs.replace(
        config, instances=tuple(_reachable(each, places.host) for each in config.instances)
    )


def _reachable(instance: ServerInstance, host: str | None) -> ServerInstance:
    if instance.has_own_process and instance.port is not None:
        raise StartError(
            f"{instance.source}: {instance.name}: `port` has no meaning on a cluster, where the "
            "node is not known before: leave it out"
        )
    if host is None or not is_loopback(instance.host):
        return instance
    return msgspec.structs.replace(instance, host=host)
