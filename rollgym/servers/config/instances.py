"""Server instances, their addresses and their ports.

`ServerInstance` is the one description of a server, from its configuration to the process that runs
it. Whether its fixed ports are free is checked by binding them. Another program may still take one
before the launcher binds it; the launcher then reports that. The check is for the usual case: an
earlier `ng_run` is still running.
"""

import errno
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import msgspec

from rollgym.servers.access import is_loopback
from rollgym.servers.config.problems import KeyPath, Location, Problems
from rollgym.servers.server import ServerKind

LOOPBACK = "127.0.0.1"
HIGHEST_PORT = 65_535
HEAD_PORT = 11_000
RESTARTS = 3


class ServerInstance(msgspec.Struct, frozen=True):
    """One server: what it is, where its code or its URLs are, and how it is run.

    `settings` is everything under the implementation's name, resolved, except `restarts` and
    `ray_resources`, which are for the launcher; `places` has the file and line of each of them. An
    external server, which runs elsewhere, has `urls`; all others have a `folder` and an
    `entrypoint`. Without `port` a server gets a free one. Several processes have consecutive ports.
    `ray_resources` are what each of them needs on a Ray cluster.
    """

    name: str
    kind: ServerKind
    implementation: str
    settings: dict[str, Any]
    source: Location
    places: dict[str, Location]
    urls: list[str] = []
    folder: Path = Path()
    entrypoint: Path = Path()
    host: str = LOOPBACK
    port: int | None = None
    processes: int = 1
    isolated: bool = False
    restarts: int = RESTARTS
    ray_resources: dict[str, float] = {}

    @property
    def path(self) -> KeyPath:
        """The path of its settings in the configuration."""
        return (self.name, self.kind.value, self.implementation)

    @property
    def root(self) -> Path:
        """The folder that has to be on Python's path for its modules to be found."""
        return self.folder.parent.parent

    @property
    def is_external(self) -> bool:
        return bool(self.urls)

    @property
    def has_own_process(self) -> bool:
        return self.isolated or self.processes > 1

    @property
    def ports(self) -> tuple[int, ...]:
        """The fixed ports, one for each process; empty where free ports are used."""
        return () if self.port is None else tuple(range(self.port, self.port + self.processes))

    def place(self, path: Sequence[str]) -> Location:
        """The location of a setting, or of the nearest one around it."""
        depths = range(len(path), 0, -1)
        known = (self.places.get(".".join(path[:depth])) for depth in depths)
        return next((place for place in known if place), self.source)


class Address(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The host and port on which a server listens; by default those of the head."""

    host: Annotated[str, msgspec.Meta(min_length=1)] = LOOPBACK
    port: Annotated[int, msgspec.Meta(ge=1, le=HIGHEST_PORT)] = HEAD_PORT

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


def check_ports(
    instances: Sequence[ServerInstance],
    head: Address | None,
    head_source: Location,
    problems: Problems,
) -> None:
    """Check that each fixed port is used once and free."""
    used: dict[Address, tuple[str, Location]] = {}
    if head is not None:
        used[head] = ("the head server", head_source)
        if (reason := why_not_free(head)) is not None:
            problems.add(head_source, f"the head server: {reason}", head_advice(head))
    for instance in instances:
        for port in instance.ports:
            address = Address(instance.host, port)
            owner, place = used.setdefault(address, (instance.name, instance.source))
            if owner != instance.name:
                problems.add(
                    instance.source,
                    f"{instance.name}: port {port} on {instance.host} is also the port of {owner} "
                    f"({place})",
                    "give one of the two another `port`, or none for a free one",
                )
            elif (reason := why_not_free(address)) is not None:
                problems.add(instance.source, f"{instance.name}: {reason}", port_advice(address))


def check_hosts(
    instances: Sequence[ServerInstance],
    head: Address | None,
    head_source: Location,
    problems: Problems,
) -> None:
    """Check, where there is no token, that only this machine can connect."""
    listening = [(each.source, each.name, each.host) for each in instances]
    if head is not None:
        listening.append((head_source, "the head server", head.host))
    for source, name, host in listening:
        if not is_loopback(host):
            problems.add(
                source,
                f"{name}: other machines can connect to the host {host}, and there is no token",
                "set server_token in env.yaml, here and for its clients, or use 127.0.0.1",
            )


def is_http_url(text: object) -> bool:
    if not isinstance(text, str):
        return False
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(parts.hostname) and port != 0


def head_advice(head: Address) -> str:
    return (
        f"another ng_run is probably running at {head.url}: stop it or pass "
        f"+head_server.port={head.port % HIGHEST_PORT + 1}"
    )


def port_advice(address: Address) -> str:
    return f"stop what listens on {address.port}, or give the server another `port` or none"


def why_not_free(address: Address) -> str | None:
    """Why a server cannot listen at this address; None where it can."""
    try:
        listening_socket(address).close()
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return f"port {address.port} on {address.host} is in use"
        return f"cannot listen on {address.host} port {address.port} ({error.strerror or error})"
    return None


def listening_socket(address: Address) -> socket.socket:
    """A bound socket. Raises OSError."""
    from rollgym.servers.bounds import bound_socket  # noqa: PLC0415 - imports aiohttp

    return bound_socket(address.host, address.port)
