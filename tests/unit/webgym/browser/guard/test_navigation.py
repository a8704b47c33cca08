"""What `visit_page` may be given."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import for_each
from webgym.browser.contract.errors import NavigationRefusedError
from webgym.browser.guard.rules import LONGEST_URL, NetworkRules, check_navigation

RULES = NetworkRules.parse(["127.0.0.1:8000"])


@for_each(
    ("given_url", "opened"),
    [
        ("https://example.com", "https://example.com"),
        ("  https://example.com/ \n", "https://example.com/"),
        ("HTTPS://Example.com/Path?Query#Part", "https://Example.com/Path?Query#Part"),
        ("http://example.com:8080/a?b=c@d#e:f", "http://example.com:8080/a?b=c@d#e:f"),
        ("https://example.com/a\\b", "https://example.com/a\\b"),
        ("https://bücher.example/straße", "https://bücher.example/straße"),
        ("https://example.com:", "https://example.com:"),
        ("http://93.184.216.34/", "http://93.184.216.34/"),
        ("http://[2606:2800:220:1::1]:81/", "http://[2606:2800:220:1::1]:81/"),
        ("http://127.0.0.1:8000/", "http://127.0.0.1:8000/"),
        ("http://localhost:8000/", "http://localhost:8000/"),
        ("http://0x7f.1:8000/", "http://0x7f.1:8000/"),
        ("about:blank", "about:blank"),
        ("example.com", "https://example.com"),
        ("example.com/path?q=http://x", "https://example.com/path?q=http://x"),
        ("//example.com/path", "https://example.com/path"),
        ("example.com:8443/path", "https://example.com:8443/path"),
        ("example.com?q", "https://example.com?q"),
        ("localhost:8000", "http://localhost:8000"),
        ("LocalHost:8000/x", "http://LocalHost:8000/x"),
        ("127.0.0.1:8000/x", "http://127.0.0.1:8000/x"),
        ("[2606:2800:220:1::1]/x", "http://[2606:2800:220:1::1]/x"),
    ],
)
def test_a_web_address_is_opened(given_url: str, opened: str) -> None:
    assert check_navigation(given_url, RULES) == opened


@for_each(
    "url",
    [
        "file:///etc/passwd",
        "FILE:///etc/passwd",
        "file:/etc/passwd",
        "chrome://settings",
        "chrome-extension://abc/page.html",
        "devtools://devtools/bundled/inspector.html",
        "view-source:https://example.com",
        "data:text/html,<h1>hello there</h1>",
        "javascript:alert(1)",
        "blob:https://example.com/1234",
        "filesystem:https://example.com/temporary/x",
        "ftp://example.com/",
        "ws://example.com/",
        "about:srcdoc",
        "about:blank#x",
        "about:blank?x",
        "about:version",
        "mailto:someone@example.com",
        "intent://x#Intent;end",
    ],
)
def test_other_schemes_are_refused(url: str) -> None:
    with pytest.raises(NavigationRefusedError, match="only http:, https: and about:blank"):
        check_navigation(url, RULES)


@for_each(
    ("url", "reason"),
    [
        ("", "has no host"),
        ("https://", "has no host"),
        ("https:///path", "has no host"),
        ("https:////example.com", "has no host"),
        ("https://:80/", "has no host"),
        ("https://a:b:c/", "has no host"),
        ("https:example.com", "write it as https://host/path"),
        ("https:/example.com", "write it as https://host/path"),
        ("https:\\\\example.com", "write it as https://host/path"),
        ("https://example.com/a b", "write a space as %20"),
        ("https://exam\nple.com/", "control characters"),
        ("java\nscript:alert(1)", "control characters"),
        ("\x00file:///etc/passwd", "control characters"),
        ("https://example.com/\ud800", "control characters"),
        ("https://user@example.com/", "user name or password"),
        ("https://user:secret@example.com/", "user name or password"),
        ("user@example.com", "user name or password"),
        ("https://example.com:0/", "0 is not a port"),
        ("https://example.com:65536/", "65536 is not a port"),
        ("https://example..com/", "is not a host name"),
        ("https://[::1/", "has no host"),
        ("https://[nonsense]/", "is not an IPv6 address"),
        ("https://x/" + "a" * LONGEST_URL, f"at most {LONGEST_URL} bytes"),
        ("https://x/" + "ü" * (LONGEST_URL // 2), f"at most {LONGEST_URL} bytes"),
    ],
)
def test_what_is_malformed_is_refused_with_the_reason(url: str, reason: str) -> None:
    with pytest.raises(NavigationRefusedError) as caught:
        check_navigation(url, RULES)
    assert reason in str(caught.value)
    assert len(str(caught.value)) < 700


@for_each(
    ("url", "reason"),
    [
        ("http://127.0.0.1/", "loopback"),
        ("http://127.0.0.1:8001/", "--allow-network 127.0.0.1:8001"),
        ("http://localhost/", "loopback"),
        ("http://shop.localhost./", "loopback"),
        ("http://2130706433/", "127.0.0.1 is a loopback address"),
        ("http://0x7f.1/", "127.0.0.1 is a loopback address"),
        ("http://0177.1/", "127.0.0.1 is a loopback address"),
        ("http://\uff11\uff12\uff17.0.0.1/", "127.0.0.1 is a loopback address"),
        ("http://%31%32%37.0.0.1/", "127.0.0.1 is a loopback address"),
        ("http://[::1]:8000/", "::1 is a loopback address"),
        ("http://[::ffff:127.0.0.1]/", "127.0.0.1 is a loopback address"),
        ("http://10.0.0.1/", "private"),
        ("https://169.254.169.254/latest/", "never allowed"),
        ("169.254.169.254", "never allowed"),
        ("http://2852039166/", "169.254.169.254 is a cloud metadata address"),
        ("http://[fe80::1]/", "never allowed"),
        ("http://[64:ff9b::a9fe:a9fe]/", "never allowed"),
        ("http://metadata.google.internal/", "never allowed"),
        ("http://METADATA.google.internal./", "never allowed"),
        ("http://0/", "never allowed"),
    ],
)
def test_an_address_that_the_rules_refuse_is_refused_at_once(url: str, reason: str) -> None:
    with pytest.raises(NavigationRefusedError) as caught:
        check_navigation(url, RULES)
    assert reason in str(caught.value)


@given(st.text(max_size=60))
def test_whatever_is_given_is_opened_as_a_web_address_or_refused(text: str) -> None:
    for url in (text, f"http://{text}", f"{text}://example.com", f"https://x{text}/"):
        try:
            opened = check_navigation(url, RULES)
        except NavigationRefusedError:
            continue
        assert opened.startswith(("http://", "https://")) or opened == "about:blank"
        assert check_navigation(opened, RULES) == opened
