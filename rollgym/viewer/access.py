"""Who may look: the reader's own browser, and with a token others.

On loopback, any page of the web could have its host name resolve to this machine and so read the
rollouts through the reader's browser; the Host header gives it away. The port in it is not looked
at, so that a tunnel from another machine works. Beyond loopback the names of this machine are not
known, and everybody can connect: there a random token is asked for. The URL that is printed has it,
and a cookie keeps it, so that no link on a page needs to.

Pages say that nothing on them may run or be loaded from elsewhere.
"""

from hmac import compare_digest
from http import HTTPStatus
from ipaddress import ip_address
from secrets import token_urlsafe
from urllib.parse import urlsplit

from aiohttp import web

from rollgym.viewer.errors import PageError

TOKEN = "token"  # noqa: S105 - the name of a parameter
_LOOPBACK_NAMES = frozenset(("localhost", "127.0.0.1", "::1"))
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; img-src 'self' data:; form-action 'self'; "
        "base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect to a server that is bound to this."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


class Access:
    """The rule for one server. `token` is None where none is asked for."""

    def __init__(self, host: str, port: int) -> None:
        self._names = _LOOPBACK_NAMES | {host.lower()}
        self._cookie = f"rollgym_viewer_{port}"
        self.token = None if is_loopback(host) else token_urlsafe(24)

    def check(self, request: web.Request) -> None:
        """Raises PageError; HTTPSeeOther for a token that is to become a cookie."""
        if self.token is None:
            self._check_host(request.headers.get("Host", ""))
            return
        if _equal(request.query.get(TOKEN), self.token):
            answer = web.HTTPSeeOther(request.rel_url.without_query_params(TOKEN))
            answer.set_cookie(self._cookie, self.token, httponly=True, samesite="Lax")
            raise answer
        if not _equal(request.cookies.get(self._cookie), self.token):
            raise PageError(
                HTTPStatus.FORBIDDEN,
                "Open the whole URL that the viewer printed when it started, with its token.",
            )

    def _check_host(self, host: str) -> None:
        try:
            name = urlsplit(f"//{host}").hostname
        except ValueError:
            name = None
        if name not in self._names:
            raise PageError(
                HTTPStatus.FORBIDDEN,
                "This viewer answers to localhost and 127.0.0.1 only. For another name, start it "
                "with --host or +server_host.",
            )


def _equal(given: str | None, token: str) -> bool:
    return given is not None and compare_digest(given.encode(), token.encode())
