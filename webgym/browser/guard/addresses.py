"""What kind of address an address is, and which host a connection or a URL names.

*Kinds.* Python's `is_private` and `is_global` have changed between releases, and neither knows
metadata services; a guard needs one answer everywhere. The tables here follow IANA's registries of
special-purpose addresses. Of IPv6, only global unicast (`2000::/3`) can be public. Some IPv6
addresses only embed an IPv4 address: packets to them arrive at that one. They are judged by the
embedded address (`embedded_addresses`).

*Hosts.* Browsers rewrite every odd spelling of an address (`0x7f.1`, `2130706433`, full-width
digits) before they connect, so a proxy sees the plain one. A URL that is checked before it is given
to a browser has not been rewritten yet; `spelled_address` understands the same spellings.
"""

import re
import socket
import unicodedata
from enum import StrEnum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import unquote

IpAddress = IPv4Address | IPv6Address
IpNetwork = IPv4Network | IPv6Network


class AddressKind(StrEnum):
    """Why an address is not public, in words that complete "it is a … address"."""

    LOOPBACK = "loopback"
    PRIVATE = "private"
    RESERVED = "reserved"
    DOCUMENTATION = "documentation"
    BENCHMARKING = "benchmarking"
    UNSPECIFIED = "unspecified"
    MULTICAST = "multicast"
    LINK_LOCAL = "link-local"
    METADATA = "cloud metadata"


NEVER_ALLOWED = frozenset(
    {AddressKind.UNSPECIFIED, AddressKind.MULTICAST, AddressKind.LINK_LOCAL, AddressKind.METADATA}
)
"""Kinds that the operator cannot allow."""

METADATA_NAMES = frozenset(
    {
        "metadata",
        "metadata.google.internal",
        "metadata.goog",
        "metadata.azure.internal",
        "metadata.tencentyun.com",
        "metadata.platformequinix.com",
        "metadata.packet.net",
        "instance-data",
        "instance-data.ec2.internal",
    }
)
"""Names under which clouds serve the credentials of a machine, whatever they resolve to."""

# The first match counts: narrow networks come before the networks that contain them.
_TABLE: tuple[tuple[AddressKind, tuple[str, ...]], ...] = (
    (
        AddressKind.METADATA,
        (
            "169.254.169.254/32",  # most clouds
            "169.254.170.2/32",  # containers at Amazon
            "169.254.170.23/32",
            "fd00:ec2::/32",
            "fd20:ce::254/128",  # Google
            "fd00:c1::a9fe:a9fe/128",  # Oracle
            "192.0.0.192/32",
            "100.100.100.200/32",  # Alibaba
            "168.63.129.16/32",  # Azure: a public address that reaches the host
        ),
    ),
    (AddressKind.LINK_LOCAL, ("169.254.0.0/16", "fe80::/10")),
    (AddressKind.UNSPECIFIED, ("0.0.0.0/8", "::/128")),  # Linux treats them as this machine
    (AddressKind.MULTICAST, ("224.0.0.0/4", "255.255.255.255/32", "ff00::/8")),
    (AddressKind.LOOPBACK, ("127.0.0.0/8", "::1/128")),
    (
        AddressKind.PRIVATE,
        (
            "10.0.0.0/8",
            "172.16.0.0/12",
            "192.168.0.0/16",
            "100.64.0.0/10",  # between a provider and its customers
            "64:ff9b:1::/48",  # local translation to IPv4
            "fc00::/7",
            "fec0::/10",
        ),
    ),
    (AddressKind.BENCHMARKING, ("198.18.0.0/15", "2001:2::/48")),
    (
        AddressKind.DOCUMENTATION,
        ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32", "3fff::/20"),
    ),
    (
        AddressKind.RESERVED,
        (
            "192.0.0.0/24",
            "192.88.99.0/24",
            "240.0.0.0/4",
            "2001::/23",
            "::/3",
            "4000::/2",
            "8000::/1",
        ),
    ),
)
_RANGES: tuple[tuple[AddressKind, int, int, int], ...] = tuple(
    (kind, network.version, int(network.network_address), int(network.broadcast_address))
    for kind, texts in _TABLE
    for network in map(ip_network, texts)
)

_COMPATIBLE = IPv6Network("::/96")
_TRANSLATED = (IPv6Network("::ffff:0:0:0/96"), IPv6Network("64:ff9b::/96"))
_LOW_32_BITS = (1 << 32) - 1


def kind_of(address: IpAddress) -> AddressKind | None:
    """Why this address is not public; None if it is. Does not look at embedded addresses."""
    number, version = int(address), address.version
    for kind, kind_version, first, last in _RANGES:
        if version == kind_version and first <= number <= last:
            return kind
    return None


def read_address(text: str) -> IpAddress:
    """The address that this text spells. Raises ValueError.

    An IPv4-mapped IPv6 address becomes the IPv4 address, and a zone (`%eth0`) is dropped: neither
    changes where a connection ends, but both could change how it is judged.
    """
    return unmapped(ip_address(text.partition("%")[0]))


def unmapped(address: IpAddress) -> IpAddress:
    """The address as IPv4 if it is IPv4-mapped, and without a zone."""
    if isinstance(address, IPv4Address):
        return address
    mapped = address.ipv4_mapped
    if mapped is not None:
        return mapped
    return IPv6Address(int(address)) if address.scope_id else address


def embedded_addresses(address: IpAddress) -> tuple[IpAddress, ...]:
    """The IPv4 addresses inside an IPv6 address, if there are any: all must be allowed."""
    if isinstance(address, IPv4Address):
        return ()
    if address.ipv4_mapped is not None:
        return (address.ipv4_mapped,)
    if address.sixtofour is not None:
        return (address.sixtofour,)
    if address.teredo is not None:
        return address.teredo
    number = int(address)
    if any(address in network for network in _TRANSLATED) or (
        address in _COMPATIBLE and number > 1
    ):
        return (IPv4Address(number & _LOW_32_BITS),)
    return ()


LONGEST_NAME = 253
LOCALHOST = IPv4Address("127.0.0.1")
"""What `localhost` stands for. Not also `::1`: allowing the one does not allow the other."""
_IDEOGRAPHIC_STOP = "\u3002"
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")


class HostError(ValueError):
    """The text is not a host. The message says why."""


def read_host(text: str) -> IpAddress | str:
    """The address, or the name in lower case without its final dot. Raises HostError."""
    try:
        return read_address(text.removeprefix("[").removesuffix("]"))
    except ValueError:
        name = text.lower().removesuffix(".")
    if not name or len(name) > LONGEST_NAME:
        raise HostError(f"a host name has 1 to {LONGEST_NAME} characters, not {len(name)}")
    for label in name.split("."):
        if not _LABEL.fullmatch(label):
            raise HostError(f"{name!r} is not a host name")
    return name


def is_localhost(name: str) -> bool:
    """Whether a name means this machine by definition, whatever a resolver answers."""
    return name == "localhost" or name.endswith(".localhost")


def spelled_address(host: str) -> IpAddress | None:
    """The address that browsers read from this host of a URL; None if it is a name."""
    text = unicodedata.normalize("NFKC", unquote(host)).replace(_IDEOGRAPHIC_STOP, ".").lower()
    text = text.removesuffix(".")
    if text.startswith("["):
        text = text.removeprefix("[").removesuffix("]")
    elif _NUMBER.fullmatch(text.rpartition(".")[2]):
        try:
            return IPv4Address(socket.inet_aton(text))
        except (OSError, ValueError):
            return None
    try:
        return read_address(text)
    except ValueError:
        return None


def is_own_address(address: IpAddress) -> bool:
    """Whether connections to this address end on this machine.

    A server that listens on all addresses is reached under each of them, and a page that guesses
    one must not reach the browser server. A socket can be bound only to an address of this machine,
    so binding one asks the system itself, and is right after every change of the network.
    """
    if kind_of(address) in (AddressKind.LOOPBACK, AddressKind.UNSPECIFIED):
        return True
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((str(address), 0))
    except OSError:
        return False
    return True
