"""Where sessions may connect to."""

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import for_each
from webgym.browser.guard.addresses import AddressKind, IpAddress, embedded_addresses, kind_of
from webgym.browser.guard.rules import ForbiddenEndpoint, NetworkRules, RuleError

DEFAULT = NetworkRules()
EVERYTHING = NetworkRules.parse(["0.0.0.0/0", "::/0", "private", "loopback"])
OF_KIND = {
    AddressKind.LOOPBACK: ("127.0.0.1", "127.0.0.0", "127.1.2.3", "127.255.255.255", "::1"),
    AddressKind.PRIVATE: (
        "10.0.0.0",
        "10.255.255.255",
        "172.16.0.0",
        "172.31.255.255",
        "192.168.0.1",
        "192.168.255.255",
        "100.64.0.0",
        "100.127.255.255",
        "fc00::",
        "fd12:3456::1",
        "fdff:ffff::1",
        "fec0::1",
        "64:ff9b:1::1",
    ),
    AddressKind.RESERVED: (
        "192.0.0.1",
        "192.88.99.1",
        "240.0.0.1",
        "255.255.255.254",
        "100::1",
        "2001:10::1",
        "2001:20::1",
        "4000::1",
        "5f00::1",
        "e000::1",
    ),
    AddressKind.DOCUMENTATION: (
        "192.0.2.1",
        "198.51.100.7",
        "203.0.113.255",
        "2001:db8::1",
        "3fff::1",
    ),
    AddressKind.BENCHMARKING: ("198.18.0.0", "198.19.255.255", "2001:2::1"),
}
NEVER_ALLOWED = {
    AddressKind.UNSPECIFIED: ("0.0.0.0", "0.1.2.3", "::"),
    AddressKind.MULTICAST: (
        "224.0.0.1",
        "239.255.255.255",
        "255.255.255.255",
        "ff02::1",
        "ff0e::1",
    ),
    AddressKind.LINK_LOCAL: ("169.254.0.0", "169.254.1.1", "169.254.255.255", "fe80::1", "febf::1"),
    AddressKind.METADATA: (
        "169.254.169.254",
        "169.254.170.2",
        "fd00:ec2::254",
        "fd20:ce::254",
        "100.100.100.200",
        "192.0.0.192",
        "168.63.129.16",
    ),
}
PUBLIC = (
    "1.1.1.1",
    "8.8.8.8",
    "9.255.255.255",
    "11.0.0.0",
    "93.184.216.34",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.0",
    "169.253.255.255",
    "169.255.0.0",
    "172.15.255.255",
    "172.32.0.0",
    "192.0.1.0",
    "192.167.255.255",
    "192.169.0.0",
    "198.17.255.255",
    "198.20.0.0",
    "223.255.255.255",
    "2001:200::1",
    "2001:4860:4860::8888",
    "2606:2800:220:1:248:1893:25c8:1946",
    "2a00:1450::1",
)


def _carriers(inner: IPv4Address) -> dict[str, IPv6Address]:
    """The IPv6 addresses that lead to this one."""
    number = int(inner)
    return {
        "compatible": IPv6Address(number),
        "translated": IPv6Address((0xFFFF << 48) | number),
        "nat64": IPv6Address((0x64FF9B << 96) | number),
        "6to4": IPv6Address((0x2002 << 112) | (number << 80) | 1),
        "teredo client": IPv6Address(
            (0x20010000 << 96) | (int(IPv4Address("8.8.8.8")) << 64) | (number ^ 0xFFFFFFFF)
        ),
        "teredo server": IPv6Address(
            (0x20010000 << 96) | (number << 64) | (int(IPv4Address("8.8.8.8")) ^ 0xFFFFFFFF)
        ),
    }


def _mapped(inner: IPv4Address) -> IPv6Address:
    return IPv6Address((0xFFFF << 32) | int(inner))


def _examples(table: dict[AddressKind, tuple[str, ...]]) -> list[tuple[str, AddressKind]]:
    return [(text, kind) for kind, texts in table.items() for text in texts]


@for_each("text", PUBLIC)
def test_public_addresses_are_open(text: str) -> None:
    assert kind_of(ip_address(text)) is None
    assert DEFAULT.rejection(ip_address(text), 443) is None


@for_each(("text", "kind"), _examples(OF_KIND))
def test_what_is_not_public_is_refused_and_can_be_allowed(text: str, kind: AddressKind) -> None:
    reason = DEFAULT.rejection(ip_address(text), 80)
    assert reason is not None
    assert f"{kind} address" in reason
    assert "--allow-network" in reason
    assert EVERYTHING.rejection(ip_address(text), 80) is None


@for_each(("text", "kind"), _examples(NEVER_ALLOWED))
def test_some_addresses_are_refused_whatever_the_operator_allows(
    text: str, kind: AddressKind
) -> None:
    reason = EVERYTHING.rejection(ip_address(text), 80)
    assert reason is not None
    assert f"{kind} address, which is never allowed" in reason


@for_each("name", ["metadata.google.internal", "metadata", "metadata.goog", "instance-data"])
def test_the_names_of_metadata_services_are_refused(name: str) -> None:
    assert "never allowed" in (EVERYTHING.name_rejection(name) or "")
    assert EVERYTHING.name_rejection("example.com") is None


def test_the_advice_in_a_refusal_can_be_followed() -> None:
    for text in ("127.0.0.1", "10.1.2.3", "::1", "fd12::7"):
        reason = DEFAULT.rejection(ip_address(text), 8080)
        assert reason is not None
        advised = NetworkRules.parse([reason.split()[-1]])
        assert advised.rejection(ip_address(text), 8080) is None
        assert advised.rejection(ip_address(text), 8081) is not None


@given(st.integers(0, (1 << 16) - 1), st.integers(1, 65_535))
def test_no_link_local_address_is_ever_allowed(low: int, port: int) -> None:
    inner = IPv4Address((0xA9FE << 16) | low)
    addresses: list[IpAddress] = [inner, _mapped(inner), *_carriers(inner).values()]
    for address in addresses:
        assert "never allowed" in (EVERYTHING.rejection(address, port) or "")


@given(st.integers(0, (1 << 118) - 1), st.integers(1, 65_535))
def test_no_link_local_address_of_ipv6_is_ever_allowed(low: int, port: int) -> None:
    address = IPv6Address((0x3FA << 118) | low)
    assert "never allowed" in (EVERYTHING.rejection(address, port) or "")


@given(st.ip_addresses(v=4), st.integers(1, 65_535))
def test_mapped_forms_are_judged_exactly_as_the_address_inside(
    inner: IPv4Address, port: int
) -> None:
    for rules in (DEFAULT, NetworkRules.parse(["private", "loopback:80"])):
        assert rules.rejection(_mapped(inner), port) == rules.rejection(inner, port)


@given(st.ip_addresses(v=4))
def test_what_carries_an_address_is_judged_by_it(inner: IPv4Address) -> None:
    for rules in (DEFAULT, NetworkRules.parse(["private", "loopback:80"])):
        expected = rules.rejection(inner, 80)
        for name, carrier in _carriers(inner).items():
            if int(carrier) <= 1:
                continue  # these two are IPv6's own
            reason = rules.rejection(carrier, 80)
            assert (reason is None) == (expected is None), name
            if expected is not None:
                assert expected in (reason or "")


@given(st.ip_addresses())
def test_what_is_open_by_default_is_public_to_python_too(address: IpAddress) -> None:
    if DEFAULT.rejection(address, 80) is None and not embedded_addresses(address):
        assert address.is_global
        assert not address.is_multicast
        assert not address.is_reserved


@for_each(
    ("value", "open_to", "closed_to"),
    [
        ("127.0.0.1", [("127.0.0.1", 1), ("127.0.0.1", 80)], [("127.0.0.2", 80), ("::1", 80)]),
        ("127.0.0.1:8080", [("127.0.0.1", 8080)], [("127.0.0.1", 80)]),
        ("10.0.0.0/8", [("10.9.9.9", 443)], [("192.168.0.1", 443)]),
        ("10.0.0.0/8:80", [("10.9.9.9", 80)], [("10.9.9.9", 443)]),
        ("::1", [("::1", 80)], [("127.0.0.1", 80)]),
        ("[::1]", [("::1", 80)], [("127.0.0.1", 80)]),
        ("[::1]:8080", [("::1", 8080)], [("::1", 80)]),
        ("fd00::/8", [("fd00::1", 80)], [("fc00::1", 80)]),
        ("[fd00::/8]:80", [("fd00::1", 80)], [("fd00::1", 81)]),
        ("[fd00::]/8:80", [("fd00::1", 80)], [("fd00::1", 81)]),
        ("::ffff:10.0.0.0/104", [("10.0.0.1", 80), ("::ffff:10.0.0.1", 80)], [("::1", 80)]),
        ("loopback", [("127.0.0.1", 80), ("127.9.9.9", 80), ("::1", 80)], [("10.0.0.1", 80)]),
        ("LOOPBACK:8080 ", [("127.0.0.1", 8080)], [("127.0.0.1", 80)]),
        (
            "private",
            [("10.0.0.1", 1), ("172.16.0.1", 1), ("192.168.1.1", 1), ("100.64.0.1", 1)],
            [("127.0.0.1", 1), ("100.100.100.200", 80), ("192.0.2.1", 1)],
        ),
    ],
)
def test_a_value_opens_what_it_says_and_nothing_else(
    value: str, open_to: list[tuple[str, int]], closed_to: list[tuple[str, int]]
) -> None:
    rules = NetworkRules.parse([value])
    for text, port in open_to:
        assert rules.rejection(ip_address(text), port) is None
    for text, port in closed_to:
        assert rules.rejection(ip_address(text), port) is not None


@for_each(
    ("value", "hint"),
    [
        ("localhost", "names cannot be allowed"),
        ("example.com:80", "names cannot be allowed"),
        ("10.0.0.1/8", "give 10.0.0.0/8"),
        ("10.0.0.0/33", "an address (127.0.0.1)"),
        ("10.0.0", "an address (127.0.0.1)"),
        ("", "an address (127.0.0.1)"),
        ("*", "an address (127.0.0.1)"),
        ("127.0.0.1:0", "between 1 and 65535"),
        ("127.0.0.1:65536", "between 1 and 65535"),
        ("127.0.0.1:http", "an address (127.0.0.1)"),
        ("::1:80", "[::1]:8080"),
        ("169.254.169.254", "never allowed"),
        ("169.254.0.0/16:80", "never allowed"),
        ("fe80::/10", "never allowed"),
        ("224.0.0.0/4", "never allowed"),
        ("0.0.0.0", "never allowed"),
        ("2002:a9fe:a9fe::", "never allowed"),
    ],
)
def test_a_bad_value_is_named_and_the_right_form_shown(value: str, hint: str) -> None:
    with pytest.raises(RuleError) as caught:
        NetworkRules.parse(["127.0.0.1", value])
    assert f"--allow-network {value}:" in str(caught.value)
    assert hint in str(caught.value)


@for_each("listening_on", ["127.0.0.1", "0.0.0.0", "::", "::1"])
@for_each("reached_as", ["127.0.0.1", "127.0.0.2", "::1", "::ffff:127.0.0.1"])
def test_our_own_servers_are_refused_under_every_address_of_this_machine(
    listening_on: str, reached_as: str
) -> None:
    rules = EVERYTHING.forbidding(ForbiddenEndpoint(ip_address(listening_on), 7000))
    reason = rules.rejection(ip_address(reached_as), 7000)
    assert reason is not None
    assert "the browser server itself" in reason
    assert rules.rejection(ip_address(reached_as), 7001) is None


def test_our_servers_elsewhere_are_refused_where_they_are() -> None:
    rules = EVERYTHING.forbidding(ForbiddenEndpoint(ip_address("10.1.2.3"), 7000))
    assert "itself" in (rules.rejection(ip_address("10.1.2.3"), 7000) or "")
    assert "itself" in (rules.rejection(ip_address("2002:a01:203::1"), 7000) or "")
    assert rules.rejection(ip_address("10.1.2.4"), 7000) is None
    assert rules.rejection(ip_address("127.0.0.1"), 7000) is None


def test_an_endpoint_can_be_given_back() -> None:
    endpoint = ForbiddenEndpoint(ip_address("127.0.0.1"), 7000)
    rules = EVERYTHING.forbidding(endpoint).without_forbidding(endpoint)
    assert rules == EVERYTHING
