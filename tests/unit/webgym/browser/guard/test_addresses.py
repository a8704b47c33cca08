"""The hosts that connections and URLs name."""

import pytest

from tests.cases import for_each
from webgym.browser.guard.addresses import (
    HostError,
    is_localhost,
    read_address,
    read_host,
    spelled_address,
)


@for_each(
    ("text", "name"),
    [
        ("example.com", "example.com"),
        ("EXAMPLE.Com", "example.com"),
        ("example.com.", "example.com"),
        ("localhost", "localhost"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("a_b.example.com", "a_b.example.com"),
        ("_dmarc.example.com", "_dmarc.example.com"),
        ("a", "a"),
        ("2130706433", "2130706433"),
        ("0x7f.1", "0x7f.1"),
    ],
)
def test_a_name_is_put_in_one_form(text: str, name: str) -> None:
    assert read_host(text) == name


@for_each(
    ("text", "address"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "::1"),
        ("[::1]", "::1"),
        ("::ffff:127.0.0.1", "127.0.0.1"),
        ("::FFFF:7F00:1", "127.0.0.1"),
        ("fe80::1%eth0", "fe80::1"),
    ],
)
def test_an_address_loses_its_disguise(text: str, address: str) -> None:
    assert read_host(text) == read_address(address)
    assert str(read_host(text)) == address


@for_each(
    "text",
    [
        "",
        ".",
        "a..b",
        "example.com..",
        ".example.com",
        "-a.example",
        "a-.example",
        "a b",
        "a\0b",
        "bücher.example",
        "a/b",
        "user@host",
        "host:80",
        "x" * 64,
        ".".join(["a" * 60] * 5),
    ],
)
def test_text_that_is_not_a_host_is_rejected(text: str) -> None:
    with pytest.raises(HostError):
        read_host(text)


def test_localhost_is_a_family_of_names() -> None:
    assert is_localhost("localhost")
    assert is_localhost("shop.localhost")
    assert not is_localhost("localhost.example.com")
    assert not is_localhost("notlocalhost")


@for_each(
    "host",
    [
        "127.0.0.1",
        "127.0.0.1.",
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "0177.0.0.1",
        "127.1",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "\uff11\uff12\uff17.0.0.1",
        "%31%32%37.0.0.1",
        "127\u30020\u30020\u30021",
    ],
)
def test_odd_spellings_of_an_address_are_seen_through(host: str) -> None:
    assert spelled_address(host) == read_address("127.0.0.1")


@for_each(
    "host", ["example.com", "1.2.3.4.5", "256.256.256.256", "0x7f.example", "[]", "[x]", "1\0.2"]
)
def test_other_hosts_are_no_addresses(host: str) -> None:
    assert spelled_address(host) is None
