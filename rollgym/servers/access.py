"""Which requests a server on a port answers: the rule of all our servers.

*Web pages.* A page in a browser on this machine can send requests to any port of it, and could use
up a model key that way. Browsers name the page in `Origin` or `Sec-Fetch-Site`. A page can also let
its own host name resolve to this machine; that name is then in `Host`.

*Other machines.* A server that listens beyond loopback requires a token in every request. Without
one it answers programs on this machine only.
"""

import socket
from collections.abc import Mapping
from functools import lru_cache
from hmac import compare_digest
from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import urlsplit

from rollgym.servers.exchange import RefusedRequestError

UNAUTHORIZED = 401
FORBIDDEN = 403
REMEMBERED = 256
"""The names and addresses that are not parsed again for every request."""
_OWN_SITE = frozenset(("none", "same-origin"))


class TokenHeader(NamedTuple):
    """How clients send the token: `name: prefix token`. `setting` is where people set it."""

    setting: str
    name: str
    prefix: str = ""


BEARER = TokenHeader("server_token", "Authorization", "Bearer ")
"""As clients of OpenAI-compatible endpoints send their key."""
NAMED_BY_OPTION = BEARER._replace(setting="the token of its --token-env")
"""The same, for commands whose token is in a variable that an option names."""


class ServerAccess:
    """The rule of one server. Without a token it only answers programs on this machine."""

    def __init__(self, host: str, token: str | None, sent_as: TokenHeader = BEARER) -> None:
        self._token = token
        self._sent_as = sent_as
        self._names = {"localhost", host.lower(), socket.gethostname().lower()}

    def check(self, headers: Mapping[str, str], peer: str | None) -> None:
        """Raises RefusedRequestError."""
        if self._token is not None:
            self._check_token(headers, self._token)
            return
        if peer is None or not is_loopback(peer.partition("%")[0]):
            raise RefusedRequestError(
                FORBIDDEN,
                "without a token the server only answers programs on this machine: set "
                f"{self._sent_as.setting} for the server and its clients",
            )
        if "Origin" in headers or comes_from_another_site(headers):
            raise RefusedRequestError(FORBIDDEN, "the server does not answer web pages")
        name = host_name(headers)
        if name not in self._names and not _is_address(name):
            raise RefusedRequestError(
                FORBIDDEN,
                "the Host header names another machine: use localhost or an address, or set a "
                "token",
            )

    def _check_token(self, headers: Mapping[str, str], token: str) -> None:
        setting, name, prefix = self._sent_as
        given = headers.get(name, "")
        if given[: len(prefix)].lower() == prefix.lower():
            given = given[len(prefix) :]
            if is_same_token(given, token):
                return
        wrong = "is wrong" if given else "is missing"
        how = (
            f"send `{name}: {prefix}TOKEN` with {setting}"
            if prefix
            else f"send {setting} as {name}"
        )
        raise RefusedRequestError(UNAUTHORIZED, f"the token {wrong}: {how}")


def bearer(token: str | None) -> dict[str, str]:
    """The header that sends this token; empty where there is none."""
    return {BEARER.name: BEARER.prefix + token} if token else {}


def host_name(headers: Mapping[str, str]) -> str:
    """The name in the Host header in lower case, without its port; empty where it has none."""
    return _host_name(headers.get("Host", ""))


@lru_cache(REMEMBERED)
def _host_name(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def comes_from_another_site(headers: Mapping[str, str]) -> bool:
    """Whether a browser says that a page of another site sent the request."""
    return headers.get("Sec-Fetch-Site", "none") not in _OWN_SITE


def is_same_token(given: str, token: str) -> bool:
    return compare_digest(given.encode("utf-8", "replace"), token.encode())


@lru_cache(REMEMBERED)
def is_loopback(host: str) -> bool:
    """Whether only this machine can connect to a server that is bound to this host."""
    return host == "localhost" or (_is_address(host) and ip_address(host).is_loopback)


@lru_cache(REMEMBERED)
def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
