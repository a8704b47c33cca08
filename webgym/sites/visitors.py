"""Who is asking: from a request to the visitor's session.

The session is named by a cookie that the first page sets. A URL with `?session=NAME` chooses the
name, so that whoever made the URL can ask for the truth about its visitor; it leads on to the same
URL without the name. Opening it again continues the session.

Pictures, styles and scripts have no session, and neither has an address with nothing at it.
"""

from http import HTTPStatus

from aiohttp import web
from aiohttp.typedefs import Handler

from webgym.sites.errors import BadRequestError
from webgym.sites.names import COOKIE, PARAMETER, is_name, new_name
from webgym.sites.session import Session, Visit
from webgym.sites.sessions import Sessions

SESSIONS = web.AppKey("sessions", Sessions)
SHOWN_CHARACTERS = 300
_SESSION = web.RequestKey("session", Session)
_STATELESS = frozenset(("static", "picture"))
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'self'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
}


def session_of(request: web.Request) -> Session:
    """The session of whoever sent this request to a page."""
    return request[_SESSION]


@web.middleware
async def visiting(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Find or begin the visitor's session. Raises HTTPSeeOther, BadRequestError."""
    if not _has_session(request):
        return await handler(request)
    sessions, known = request.config_dict[SESSIONS], cookie_of(request)
    wanted = request.query.get(PARAMETER)
    if wanted is not None and request.method in ("GET", "HEAD"):
        if not is_name(wanted):
            raise BadRequestError("A session's name has 1 to 64 letters and digits.")
        request[_SESSION] = sessions.visit(wanted, known_before=known == wanted)
        clean = request.rel_url.without_query_params(PARAMETER)
        raise web.HTTPSeeOther("/" + str(clean).lstrip("/\\"))
    name = known or new_name()
    request[_SESSION] = sessions.visit(name, known_before=known is not None)
    return await handler(request)


async def on_prepare(request: web.Request, response: web.StreamResponse) -> None:
    """Name the session to the browser, note the page, and add what every answer has."""
    session = request.get(_SESSION)
    if session is not None:
        if cookie_of(request) != session.session:
            # The response's own cookies have been written into its headers by now.
            cookie = f"{COOKIE}={session.session}; Path=/; HttpOnly; SameSite=Lax"
            response.headers.add("Set-Cookie", cookie)
        if is_page(response) and request.method == "GET":
            path = request.rel_url.path[:SHOWN_CHARACTERS]
            session.saw(Visit(path, request.rel_url.query_string[:SHOWN_CHARACTERS]))
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)
    response.headers.setdefault("Cache-Control", "no-store")


def is_page(response: web.StreamResponse) -> bool:
    return response.status == HTTPStatus.OK and response.content_type == "text/html"


def cookie_of(request: web.Request) -> str | None:
    """The name the visitor came with, if it is one."""
    name = request.cookies.get(COOKIE)
    return name if name is not None and is_name(name) else None


def _has_session(request: web.Request) -> bool:
    if request.match_info.http_exception is not None or request.path.startswith("/_"):
        return False
    parts = request.path.split("/", 3)
    return len(parts) < 3 or parts[2] not in _STATELESS
