"""Access control: which requests the viewer answers.

*Host.* On loopback, any website could let its host name resolve to this machine and read the
rollouts through the user's browser. The Host header reveals that. Its port is not checked, so that
a tunnel from another machine works.

*Origin.* A page of another site may also send requests to the address itself. It cannot read the
responses, but it is rejected nevertheless: by the Origin header, and by Sec-Fetch-Site unless the
user followed a link to the viewer.

*Token.* Beyond loopback the names of this machine are unknown, and any machine can connect. There
the viewer requires a random token. The printed URL contains it, and a cookie keeps it, so that
links on pages do not need it.
"""

from http import HTTPStatus
from secrets import token_urlsafe

from aiohttp import hdrs, web

from rollgym.servers.access import (
    comes_from_another_site,
    host_name,
    is_loopback,
    is_same_token,
)
from rollgym.viewer.errors import RequestError

TOKEN = "token"  # noqa: S105 - the name of a parameter
METHODS = (hdrs.METH_GET, hdrs.METH_HEAD)
_LOOPBACK_NAMES = frozenset(("localhost", "127.0.0.1", "::1"))


class ViewerAccess:
    """The access rules of one server. `token` is None where none is required."""

    def __init__(self, host: str, port: int) -> None:
        self._names = _LOOPBACK_NAMES | {host.lower()}
        self._cookie = f"rollgym_viewer_{port}"
        self.token = None if is_loopback(host) else token_urlsafe(24)

    def check(self, request: web.Request) -> None:
        """Raises RequestError to reject; HTTPSeeOther to turn a token into a cookie."""
        if request.method not in METHODS:
            raise RequestError(
                HTTPStatus.METHOD_NOT_ALLOWED, "The viewer is read-only: use GET or HEAD."
            )
        if self.token is None:
            self._check_host(host_name(request.headers))
        _check_origin(request)
        if self.token is not None:
            self._check_token(request, self.token)

    def _check_host(self, name: str) -> None:
        if name not in self._names:
            raise RequestError(
                HTTPStatus.FORBIDDEN,
                "This viewer only answers requests to localhost and 127.0.0.1. To use another "
                "name, start it with --host or +server_host.",
            )

    def _check_token(self, request: web.Request, token: str) -> None:
        if is_same_token(request.query.get(TOKEN, ""), token):
            # A path that starts with two slashes would lead to another host.
            path = "/" + request.rel_url.path.lstrip("/")
            query = request.rel_url.without_query_params(TOKEN).query
            answer = web.HTTPSeeOther(request.rel_url.with_path(path).with_query(query))
            answer.set_cookie(self._cookie, token, httponly=True, samesite="Lax")
            raise answer
        if not is_same_token(request.cookies.get(self._cookie, ""), token):
            raise RequestError(
                HTTPStatus.FORBIDDEN,
                "Open the whole URL that the viewer printed when it started, including its token.",
            )


def _check_origin(request: web.Request) -> None:
    """Raises RequestError for requests of another site's pages, except for followed links."""
    origin = request.headers.get(hdrs.ORIGIN)
    if origin is not None and not _is_same(origin, request.headers.get(hdrs.HOST, "")):
        raise _cross_site()
    if comes_from_another_site(request.headers):
        mode, target = (request.headers.get(f"Sec-Fetch-{name}") for name in ("Mode", "Dest"))
        if (mode, target) != ("navigate", "document"):
            raise _cross_site()


def _is_same(origin: str, host: str) -> bool:
    scheme, _, rest = origin.partition("://")
    return scheme in {"http", "https"} and rest.lower() == host.lower()


def _cross_site() -> RequestError:
    return RequestError(
        HTTPStatus.FORBIDDEN,
        "Another site sent this request. The viewer only answers requests of its own pages and "
        "addresses that you open yourself.",
    )
