"""Where sessions may connect to: the operator's rules, and those that no operator can change.

Public addresses are open. Everything else is closed, unless a value of `--allow-network` opens it.
Three things stay closed whatever the values say: link-local addresses and the metadata services of
clouds, which hand out the machine's credentials; addresses that are no single machine's; and the
browser server's own ports, since a page must never talk to the server that runs it.
"""

import re
from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network, ip_network

import msgspec

from webgym.browser.guard.addresses import (
    METADATA_NAMES,
    NEVER,
    Address,
    Kind,
    Network,
    carried,
    kind_of,
    plain,
)
from webgym.browser.guard.own import is_own

FORMS = (
    "an address (127.0.0.1), a network (10.0.0.0/8), either with a port (127.0.0.1:8080, "
    "10.0.0.0/8:80, [::1]:8080), or the word loopback or private"
)
WORDS: dict[str, tuple[str, ...]] = {
    "loopback": ("127.0.0.0/8", "::1/128"),
    "private": (
        "10.0.0.0/8",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "100.64.0.0/10",
        "fc00::/7",
        "fec0::/10",
    ),
}
_BRACKETED = re.compile(r"\[([^\[\]]*)\](/[0-9]+)?(?::([0-9]+))?")
_WITH_PORT = re.compile(r"([^:]*):([0-9]+)")
_NAME = re.compile(r"[a-z0-9-]*[a-z-][a-z0-9-]*(\.[a-z0-9-]+)*\.?")


class RuleError(ValueError):
    """A value of `--allow-network` means nothing. The message names it and shows the right form."""


class Allowance(msgspec.Struct, frozen=True):
    """A network that sessions may connect to, on one port or on all."""

    network: Network
    port: int | None = None

    def covers(self, address: Address, port: int) -> bool:
        return self.port in (None, port) and address in self.network


class Endpoint(msgspec.Struct, frozen=True):
    """Where a server of ours listens. Loopback and unspecified mean: anywhere on this machine."""

    address: Address
    port: int

    def covers(self, address: Address, port: int) -> bool:
        if port != self.port:
            return False
        if address == self.address:
            return True
        here = kind_of(self.address) in (Kind.LOOPBACK, Kind.UNSPECIFIED) or is_own(self.address)
        return here and is_own(address)


class NetworkRules(msgspec.Struct, frozen=True):
    """What is allowed beyond public addresses, and which endpoints are forbidden always."""

    allowed: tuple[Allowance, ...] = ()
    forbidden: frozenset[Endpoint] = frozenset()

    @classmethod
    def parse(cls, values: Iterable[str], forbidden: Iterable[Endpoint] = ()) -> "NetworkRules":
        """The rules that these values of `--allow-network` give. Raises RuleError."""
        allowed = tuple(allowance for value in values for allowance in _allowances(value))
        return cls(allowed, frozenset(forbidden))

    def forbidding(self, *endpoints: Endpoint) -> "NetworkRules":
        """The same rules with these endpoints forbidden as well."""
        return NetworkRules(self.allowed, self.forbidden.union(endpoints))

    def no_longer_forbidding(self, *endpoints: Endpoint) -> "NetworkRules":
        return NetworkRules(self.allowed, self.forbidden.difference(endpoints))

    def refusal(self, address: Address, port: int) -> str | None:
        """Why a session may not connect there, in plain words; None: it may."""
        address = plain(address)
        inside = carried(address)
        for each in (address, *inside):
            if any(endpoint.covers(each, port) for endpoint in self.forbidden):
                return f"{address} port {port} belongs to the browser server itself"
        if not inside:
            return self._refusal_of(address, port)
        for each in inside:
            reason = self._refusal_of(each, port)
            if reason is not None:
                return f"{address} stands for {each}: {reason}"
        return None

    def name_refusal(self, name: str) -> str | None:
        """Why a session may not even ask for this name, which is in lower case."""
        if name in METADATA_NAMES:
            return f"{name} is the name of a {Kind.METADATA} service, which is never allowed"
        return None

    def _refusal_of(self, address: Address, port: int) -> str | None:
        kind = kind_of(address)
        if kind is None:
            return None
        if kind in NEVER:
            return f"{address} is {_named(kind)}, which is never allowed"
        if any(allowance.covers(address, port) for allowance in self.allowed):
            return None
        brackets = f"[{address}]" if address.version == 6 else str(address)
        return (
            f"{address} is {_named(kind)}; "
            f"the operator can allow it with --allow-network {brackets}:{port}"
        )


def _named(kind: Kind) -> str:
    article = "an" if kind is Kind.UNSPECIFIED else "a"
    return f"{article} {kind} address"


def _allowances(value: str) -> list[Allowance]:
    text = value.strip().lower()
    target, port = _split_port(value, text)
    if target in WORDS:
        return [Allowance(ip_network(each), port) for each in WORDS[target]]
    network = _network(value, target)
    kind = _kind_inside(network[0])
    if kind in NEVER and kind is _kind_inside(network[-1]):
        raise RuleError(f"--allow-network {value}: {_named(kind)} is never allowed; give {FORMS}")
    return [Allowance(network, port)]


def _kind_inside(address: Address) -> Kind | None:
    """The kind that decides: that of the address it carries, if it carries one."""
    return kind_of((*carried(address), address)[0])


def _split_port(value: str, text: str) -> tuple[str, int | None]:
    if match := _BRACKETED.fullmatch(text):
        target, port = match[1] + (match[2] or ""), match[3]
    elif match := _WITH_PORT.fullmatch(text):
        target, port = match[1], match[2]
    else:
        return text, None
    if port is None:
        return target, None
    if not 1 <= int(port) <= 65_535:
        raise RuleError(f"--allow-network {value}: a port lies between 1 and 65535")
    return target, int(port)


def _network(value: str, target: str) -> Network:
    if _NAME.fullmatch(target):
        raise RuleError(
            f"--allow-network {value}: names cannot be allowed, since what they stand for can "
            f"change; give {FORMS}"
        )
    try:
        return _without_disguise(ip_network(target))
    except ValueError as error:
        try:
            around = ip_network(target, strict=False)
        except ValueError:
            raise RuleError(f"--allow-network {value}: {error}; give {FORMS}") from error
        raise RuleError(
            f"--allow-network {value}: bits are set beyond the prefix; "
            f"for the whole network give {around}"
        ) from error


def _without_disguise(network: Network) -> Network:
    """`::ffff:10.0.0.0/104` is `10.0.0.0/8`, as addresses are judged without their disguise."""
    inner = plain(network[0])
    if isinstance(network, IPv6Network) and inner.version == 4 and network.prefixlen >= 96:
        return IPv4Network((int(inner), network.prefixlen - 96))
    return network
