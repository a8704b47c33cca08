"""Who may ask.

With a token, whoever knows it. Without one, programs on this machine, but no page of the web: a
page could send requests through somebody's browser, or have its own host name resolve to this
machine. Browsers name the page in `Origin` or `Sec-Fetch-Site`, and such a host name is in `Host`.
"""

import hmac
import socket
from collections.abc import Mapping
from ipaddress import ip_address
from urllib.parse import urlsplit

from rollgym.servers.exchange import Answer
from webgym.browser.contract.errors import UnauthorizedError
from webgym.browser.exchange.answer import error_answer
from webgym.browser.registration import TOKEN_HEADER
from webgym.browser.settings import TOKEN_VARIABLE, is_loopback

_OWN_SITE = frozenset(("none", "same-origin"))
_FORBIDDEN = 403


class Access:
    """The rule for one server. `token` None: for those on this machine."""

    def __init__(self, token: str | None, host: str) -> None:
        self._token = None if token is None else token.encode()
        self._names = {"localhost", host.lower(), socket.gethostname().lower()}

    def refusal(self, headers: Mapping[str, str], peer: str | None) -> Answer | None:
        """Why this request is not answered; None where it is."""
        if self._token is not None:
            return self._check_token(headers.get(TOKEN_HEADER, ""))
        if peer is None or not is_loopback(peer.partition("%")[0]):
            return _refused(
                f"without a token only programs on this machine are answered: set {TOKEN_VARIABLE} "
                "for the server and its clients"
            )
        if "Origin" in headers or headers.get("Sec-Fetch-Site", "none") not in _OWN_SITE:
            return _refused("pages of the web are not answered")
        if not self._is_own_name(headers.get("Host", "")):
            return _refused(
                "the Host header names another machine: without a token, ask for localhost or an "
                "address"
            )
        return None

    def _check_token(self, given: str) -> Answer | None:
        assert self._token is not None  # noqa: S101 - for the type checker
        if hmac.compare_digest(given.encode("utf-8", "surrogateescape"), self._token):
            return None
        wrong = "is wrong" if given else "is missing"
        return error_answer(
            UnauthorizedError(f"the token {wrong}: send {TOKEN_VARIABLE} as {TOKEN_HEADER}")
        )

    def _is_own_name(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname
        except ValueError:
            return False
        return name is not None and (name in self._names or _is_address(name))


def _refused(message: str) -> Answer:
    return error_answer(UnauthorizedError(message), _FORBIDDEN)


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
