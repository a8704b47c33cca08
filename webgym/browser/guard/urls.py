"""What `visit_page` may be given, checked before the browser sees it.

The proxy decides about every connection, whatever the URL looked like. This check is for what is
no connection (`file:`, `chrome:`, `data:` and their like are refused here) and for good messages:
an address in the URL is judged at once by the rules that the proxy would apply.
"""

import re

from webgym.browser.contract.errors import NavigationRefusedError
from webgym.browser.guard.names import (
    LOCALHOST,
    HostError,
    is_localhost,
    read_host,
    spelled_address,
)
from webgym.browser.guard.rules import NetworkRules

LONGEST_URL = 8_192
BLANK = "about:blank"
PORTS = {"http": 80, "https": 443}

_SHOWN = 200
_UNSEEN = re.compile(r"[\x00-\x20\x7f-\xa0\u2028\u2029\ud800-\udfff]")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_HOST_AND_PORT = re.compile(r"[A-Za-z0-9.-]+:[0-9]{1,5}(?=[/?#]|$)")
_AUTHORITY = re.compile(r"//([^/?#\\]*)(.*)", re.DOTALL)
_HOST = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]+)(?::([0-9]*))?")


def check_navigation(url: str, rules: NetworkRules) -> str:
    """The URL to open, with its scheme. Raises NavigationRefusedError with the reason.

    A bare host (`example.com/page`, `localhost:8080`) gets `https://`; this machine and addresses,
    which have no certificates, get `http://`.
    """
    text = url.strip()
    if len(text) > LONGEST_URL or len(text.encode("utf-8", "replace")) > LONGEST_URL:
        raise _refused(text, f"a URL has at most {LONGEST_URL} bytes")
    if text == BLANK:
        return text
    scheme, rest = _split_scheme(text)
    if scheme not in PORTS:
        raise _refused(text, f"only http:, https: and {BLANK} can be opened, not {scheme}:")
    if _UNSEEN.search(text):
        raise _refused(text, "it has spaces or control characters; write a space as %20")
    authority = _AUTHORITY.fullmatch(rest)
    if authority is None:
        raise _refused(text, f"write it as {scheme}://host/path")
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
        raise _refused(text, "a URL must not hold a user name or password")
    match = _HOST.fullmatch(authority)
    if match is None:
        raise _refused(text, "it names no host")
    port = int(match[2] or default_port)
    if not 1 <= port <= 65_535:
        raise _refused(text, f"there is no port {match[2][:20]}")
    return match[1], port


def _check_host(text: str, host: str, port: int, rules: NetworkRules) -> None:
    address = spelled_address(host)
    if address is not None:
        reason = rules.refusal(address, port)
    elif host.startswith("["):
        reason = f"{host} is not an IPv6 address"
    elif host.isascii() and "%" not in host:
        reason = _name_refusal(host, port, rules)
    else:
        reason = None  # the browser rewrites such names, and the proxy judges what they become
    if reason is not None:
        raise _refused(text, reason)


def _name_refusal(host: str, port: int, rules: NetworkRules) -> str | None:
    try:
        name = read_host(host)
    except HostError as error:
        return str(error)
    if not isinstance(name, str):
        return rules.refusal(name, port)
    return rules.refusal(LOCALHOST, port) if is_localhost(name) else rules.name_refusal(name)


def _refused(url: str, reason: str) -> NavigationRefusedError:
    shown = url if len(url) <= _SHOWN else f"{url[:_SHOWN]}…"
    return NavigationRefusedError(f"{shown!r} cannot be opened: {reason}")
