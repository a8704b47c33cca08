"""What kind of address an address is, from tables of our own.

Python's `is_private` and `is_global` have changed their minds between releases, and neither knows
of metadata services; a guard needs one answer everywhere. The tables follow IANA's registries of
special-purpose addresses. Of IPv6, only what is given out as global unicast (`2000::/3`) can be
public.

Some IPv6 addresses only carry an IPv4 address: what is sent to them arrives at that one. They are
judged by what they carry (`carried`).
"""

from enum import StrEnum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


class Kind(StrEnum):
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


NEVER = frozenset({Kind.UNSPECIFIED, Kind.MULTICAST, Kind.LINK_LOCAL, Kind.METADATA})
"""Kinds that no operator can allow."""

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
"""Names under which clouds serve the credentials of a machine, wherever they resolve to."""

# The first match counts: the narrow ones stand before what surrounds them.
_TABLE: tuple[tuple[Kind, tuple[str, ...]], ...] = (
    (
        Kind.METADATA,
        (
            "169.254.169.254/32",  # nearly everyone
            "169.254.170.2/32",  # containers at Amazon
            "169.254.170.23/32",
            "fd00:ec2::/32",
            "fd20:ce::254/128",  # Google
            "fd00:c1::a9fe:a9fe/128",  # Oracle
            "192.0.0.192/32",
            "100.100.100.200/32",  # Alibaba
            "168.63.129.16/32",  # Azure: a public address that leads to the host
        ),
    ),
    (Kind.LINK_LOCAL, ("169.254.0.0/16", "fe80::/10")),
    (Kind.UNSPECIFIED, ("0.0.0.0/8", "::/128")),  # Linux takes them for this machine
    (Kind.MULTICAST, ("224.0.0.0/4", "255.255.255.255/32", "ff00::/8")),
    (Kind.LOOPBACK, ("127.0.0.0/8", "::1/128")),
    (
        Kind.PRIVATE,
        (
            "10.0.0.0/8",
            "172.16.0.0/12",
            "192.168.0.0/16",
            "100.64.0.0/10",  # between a provider and its customers
            "64:ff9b:1::/48",  # a network's own translation to IPv4
            "fc00::/7",
            "fec0::/10",
        ),
    ),
    (Kind.BENCHMARKING, ("198.18.0.0/15", "2001:2::/48")),
    (
        Kind.DOCUMENTATION,
        ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32", "3fff::/20"),
    ),
    (
        Kind.RESERVED,
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
_RANGES: tuple[tuple[Kind, int, int, int], ...] = tuple(
    (kind, network.version, int(network.network_address), int(network.broadcast_address))
    for kind, texts in _TABLE
    for network in map(ip_network, texts)
)

_COMPATIBLE = IPv6Network("::/96")
_TRANSLATED = (IPv6Network("::ffff:0:0:0/96"), IPv6Network("64:ff9b::/96"))
_LOW_32_BITS = (1 << 32) - 1


def kind_of(address: Address) -> Kind | None:
    """Why this address is not public; None: it is. Looks at the address itself, not inside."""
    number, version = int(address), address.version
    for kind, kind_version, first, last in _RANGES:
        if version == kind_version and first <= number <= last:
            return kind
    return None


def read_address(text: str) -> Address:
    """The address that is written here. Raises ValueError.

    An IPv6 address that is an IPv4 address in disguise becomes that one, and a zone (`%eth0`) is
    dropped: neither changes where a connection ends, both could change how it is judged.
    """
    return plain(ip_address(text.partition("%")[0]))


def plain(address: Address) -> Address:
    """The address without disguise and zone."""
    if isinstance(address, IPv4Address):
        return address
    mapped = address.ipv4_mapped
    if mapped is not None:
        return mapped
    return IPv6Address(int(address)) if address.scope_id else address


def carried(address: Address) -> tuple[Address, ...]:
    """The IPv4 addresses inside an IPv6 address, if it carries any: all must be acceptable."""
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
