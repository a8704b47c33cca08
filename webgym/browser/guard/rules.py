"""Where sessions may connect to: the rules of the operator, and those that cannot be changed.

Public addresses are allowed. All others are rejected, unless a value of `--allow-network` allows
them. Three things are rejected whatever the values say: link-local addresses and the metadata
services of clouds, which hand out the credentials of the machine; addresses that do not belong to
one machine; and the ports of the browser server itself, since a page must never talk to the server
that runs it.

The proxy checks every connection, whatever the URL looked like. `check_navigation` checks a URL
before the browser sees it, for two reasons: schemes that open no connection (`file:`, `chrome:`,
`data:` and the like) are rejected here, and an address in the URL gets a good error message at
once, by the same rules.
"""

import re
from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network, ip_network

import msgspec

from webgym.browser.contract.errors import NavigationRefusedError
from webgym.browser.guard.addresses import (
    LOCALHOST,
    METADATA_NAMES,
    NEVER_ALLOWED,
    AddressKind,
    HostError,
    IpAddress,
    IpNetwork,
    embedded_addresses,
    is_localhost,
    is_own_address,
    kind_of,
    read_host,
    spelled_address,
    unmapped,
)

NETWORK_FORMS = (
    "an address (127.0.0.1), a network (10.0.0.0/8), either with a port (127.0.0.1:8080, "
    "10.0.0.0/8:80, [::1]:8080), or the word loopback or private"
)
NETWORK_WORDS: dict[str, tuple[str, ...]] = {
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


class NetworkAllowance(msgspec.Struct, frozen=True):
    """A network that sessions may connect to, on one port or on all."""

    network: IpNetwork
    port: int | None = None

    def covers(self, address: IpAddress, port: int) -> bool:
        return self.port in (None, port) and address in self.network


class ForbiddenEndpoint(msgspec.Struct, frozen=True):
    """Where a browser server listens. Loopback and unspecified mean any address of this machine."""

    address: IpAddress
    port: int

    def covers(self, address: IpAddress, port: int) -> bool:
        if port != self.port:
            return False
        if address == self.address:
            return True
        here = kind_of(self.address) in (
            AddressKind.LOOPBACK,
            AddressKind.UNSPECIFIED,
        ) or is_own_address(self.address)
        return here and is_own_address(address)


class NetworkRules(msgspec.Struct, frozen=True):
    """What is allowed beyond public addresses, and which endpoints are always forbidden."""

    allowed: tuple[NetworkAllowance, ...] = ()
    forbidden: frozenset[ForbiddenEndpoint] = frozenset()

    @classmethod
    def parse(
        cls, values: Iterable[str], forbidden: Iterable[ForbiddenEndpoint] = ()
    ) -> "NetworkRules":
        """The rules for these values of `--allow-network`. Raises RuleError."""
        allowed = tuple(allowance for value in values for allowance in _allowances(value))
        return cls(allowed, frozenset(forbidden))

    def forbidding(self, *endpoints: ForbiddenEndpoint) -> "NetworkRules":
        """The same rules with these endpoints forbidden as well."""
        return NetworkRules(self.allowed, self.forbidden.union(endpoints))

    def without_forbidding(self, *endpoints: ForbiddenEndpoint) -> "NetworkRules":
        return NetworkRules(self.allowed, self.forbidden.difference(endpoints))

    def rejection(self, address: IpAddress, port: int) -> str | None:
        """Why a session may not connect there, in words; None if it may."""
        address = unmapped(address)
        inside = embedded_addresses(address)
        for each in (address, *inside):
            if any(endpoint.covers(each, port) for endpoint in self.forbidden):
                return f"{address} port {port} belongs to the browser server itself"
        if not inside:
            return self._rejection_of(address, port)
        for each in inside:
            reason = self._rejection_of(each, port)
            if reason is not None:
                return f"{address} stands for {each}: {reason}"
        return None

    def name_rejection(self, name: str) -> str | None:
        """Why a session may not resolve this name, which is in lower case; None if it may."""
        if name in METADATA_NAMES:
            return f"{name} is the name of a {AddressKind.METADATA} service, which is never allowed"
        return None

    def _rejection_of(self, address: IpAddress, port: int) -> str | None:
        kind = kind_of(address)
        if kind is None:
            return None
        if kind in NEVER_ALLOWED:
            return f"{address} is {_named(kind)}, which is never allowed"
        if any(allowance.covers(address, port) for allowance in self.allowed):
            return None
        brackets = f"[{address}]" if address.version == 6 else str(address)
        return (
            f"{address} is {_named(kind)}; "
            f"the operator can allow it with --allow-network {brackets}:{port}"
        )


def _named(kind: AddressKind) -> str:
    article = "an" if kind is AddressKind.UNSPECIFIED else "a"
    return f"{article} {kind} address"


def _allowances(value: str) -> list[NetworkAllowance]:
    text = value.strip().lower()
    target, port = _split_port(value, text)
    if target in NETWORK_WORDS:
        return [NetworkAllowance(ip_network(each), port) for each in NETWORK_WORDS[target]]
    network = _network(value, target)
    kind = _kind_inside(network[0])
    if kind in NEVER_ALLOWED and kind is _kind_inside(network[-1]):
        raise RuleError(
            f"--allow-network {value}: {_named(kind)} is never allowed; give {NETWORK_FORMS}"
        )
    return [NetworkAllowance(network, port)]


def _kind_inside(address: IpAddress) -> AddressKind | None:
    """The kind that decides: that of the embedded address, if there is one."""
    return kind_of((*embedded_addresses(address), address)[0])


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


def _network(value: str, target: str) -> IpNetwork:
    if _NAME.fullmatch(target):
        raise RuleError(
            f"--allow-network {value}: names cannot be allowed, since they can change their "
            f"addresses; give {NETWORK_FORMS}"
        )
    try:
        return _unmapped_network(ip_network(target))
    except ValueError as error:
        try:
            around = ip_network(target, strict=False)
        except ValueError:
            raise RuleError(f"--allow-network {value}: {error}; give {NETWORK_FORMS}") from error
        raise RuleError(
            f"--allow-network {value}: bits are set beyond the prefix; "
            f"for the whole network give {around}"
        ) from error


def _unmapped_network(network: IpNetwork) -> IpNetwork:
    """`::ffff:10.0.0.0/104` becomes `10.0.0.0/8`, since addresses are judged unmapped."""
    inner = unmapped(network[0])
    if isinstance(network, IPv6Network) and inner.version == 4 and network.prefixlen >= 96:
        return IPv4Network((int(inner), network.prefixlen - 96))
    return network


LONGEST_URL = 8_192
BLANK = "about:blank"
PORTS = {"http": 80, "https": 443}

_SHOWN = 200
_INVISIBLE = re.compile(r"[\x00-\x20\x7f-\xa0\u2028\u2029\ud800-\udfff]")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_HOST_AND_PORT = re.compile(r"[A-Za-z0-9.-]+:[0-9]{1,5}(?=[/?#]|$)")
_AUTHORITY = re.compile(r"//([^/?#\\]*)(.*)", re.DOTALL)
_HOST = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]+)(?::([0-9]*))?")


def check_navigation(url: str, rules: NetworkRules) -> str:
    """The URL to open, with its scheme. Raises NavigationRefusedError with the reason.

    A bare host (`example.com/page`) gets `https://`. This machine (`localhost:8080`) and addresses
    get `http://`, because they have no certificates.
    """
    text = url.strip()
    if len(text) > LONGEST_URL or len(text.encode("utf-8", "replace")) > LONGEST_URL:
        raise _rejected(text, f"a URL has at most {LONGEST_URL} bytes")
    if text == BLANK:
        return text
    scheme, rest = _split_scheme(text)
    if scheme not in PORTS:
        raise _rejected(text, f"only http:, https: and {BLANK} can be opened, not {scheme}:")
    if _INVISIBLE.search(text):
        raise _rejected(text, "it has spaces or control characters; write a space as %20")
    authority = _AUTHORITY.fullmatch(rest)
    if authority is None:
        raise _rejected(text, f"write it as {scheme}://host/path")
    host, port = _split_host(text, authority[1], PORTS[scheme])
    _check_host(text, host, port, rules)
    return f"{scheme}:{rest}"


def _split_scheme(text: str) -> tuple[str, str]:
    match = _SCHEME.fullmatch(text)
    if match is not None and not _HOST_AND_PORT.match(text):
        return match[1].lower(), match[2]
    rest = text if text.startswith("//") else f"//{text}"
    host = re.split(r"[/?#:]", rest.removeprefix("//"), maxsplit=1)[0].lower()
    bare = spelled_address(host) is not None or rest.startswith("//[") or is_localhost(host)
    return ("http" if bare else "https"), rest


def _split_host(text: str, authority: str, default_port: int) -> tuple[str, int]:
    if "@" in authority:
        raise _rejected(text, "a URL must not hold a user name or password")
    match = _HOST.fullmatch(authority)
    if match is None:
        raise _rejected(text, "it has no host")
    port = int(match[2] or default_port)
    if not 1 <= port <= 65_535:
        raise _rejected(text, f"{match[2][:20]} is not a port")
    return match[1], port


def _check_host(text: str, host: str, port: int, rules: NetworkRules) -> None:
    address = spelled_address(host)
    if address is not None:
        reason = rules.rejection(address, port)
    elif host.startswith("["):
        reason = f"{host} is not an IPv6 address"
    elif host.isascii() and "%" not in host:
        reason = _name_rejection(host, port, rules)
    else:
        reason = None  # the browser rewrites such names, and the proxy checks the result
    if reason is not None:
        raise _rejected(text, reason)


def _name_rejection(host: str, port: int, rules: NetworkRules) -> str | None:
    try:
        name = read_host(host)
    except HostError as error:
        return str(error)
    if not isinstance(name, str):
        return rules.rejection(name, port)
    return rules.rejection(LOCALHOST, port) if is_localhost(name) else rules.name_rejection(name)


def _rejected(url: str, reason: str) -> NavigationRefusedError:
    shown = url if len(url) <= _SHOWN else f"{url[:_SHOWN]}…"
    return NavigationRefusedError(f"{shown!r} cannot be opened: {reason}")
