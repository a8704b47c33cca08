"""Whether the ports that a configuration asks for can be had, asked of the machine by binding them.

Between this and the real binding another program may take one; that is then told by the launcher.
This is for the usual case: an earlier `ng_run` still runs.
"""

import errno
import socket
from collections.abc import Sequence
from ipaddress import ip_address

import msgspec

from rollgym.servers.config.instances import LOOPBACK, InstanceConfig
from rollgym.servers.config.problems import Problems
from rollgym.servers.config.sources import Source

HEAD_PORT = 11_000


class Address(msgspec.Struct, frozen=True):
    """Where a server listens."""

    host: str = LOOPBACK
    port: int = HEAD_PORT

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


def check_ports(
    instances: Sequence[InstanceConfig],
    head: Address | None,
    head_source: Source,
    problems: Problems,
) -> None:
    """Each fixed port is asked for once, and free."""
    taken: dict[Address, tuple[str, Source]] = {}
    if head is not None:
        taken[head] = ("the head server", head_source)
        if (reason := why_not(head)) is not None:
            problems.add(head_source, f"the head server: {reason}", head_advice(head))
    for instance in instances:
        for port in instance.ports:
            address = Address(instance.host, port)
            owner, place = taken.setdefault(address, (instance.name, instance.source))
            if owner != instance.name:
                problems.add(
                    instance.source,
                    f"{instance.name}: port {port} on {instance.host} is also that of {owner} "
                    f"({place})",
                    "give one of the two another `port`, or none to have a free one",
                )
            elif (reason := why_not(address)) is not None:
                problems.add(instance.source, f"{instance.name}: {reason}", port_advice(address))


def head_advice(head: Address) -> str:
    return (
        f"another ng_run is probably running at {head.url}: stop it or pass "
        f"+head_server.port={head.port % 65_535 + 1}"
    )


def port_advice(address: Address) -> str:
    return f"stop what listens on {address.port}, or give the server another `port` or none"


def why_not(address: Address) -> str | None:
    """Why nothing can listen there; None where something can."""
    try:
        listening_socket(address).close()
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return f"port {address.port} on {address.host} is taken"
        return f"cannot listen on {address.host} port {address.port} ({error.strerror or error})"
    return None


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect to a server that is bound to this host."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def listening_socket(address: Address) -> socket.socket:
    """A bound socket. Raises OSError where it cannot be had."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((address.host, address.port))
    except BaseException:
        bound.close()
        raise
    return bound
