"""All the sites as one application: their routes, an index page, error pages, and session states.

`GET /_truth` is the state of the visitor's own session, `GET /_truth/NAME` that of any session;
`POST` to `/_reset` or `/_reset/NAME` starts a session over. These requests do not count as visits.
"""

from contextlib import AbstractAsyncContextManager
from http import HTTPStatus
from pathlib import Path

from aiohttp import web
from aiohttp.typedefs import Handler

from webgym.served import is_session_name, json_response, served
from webgym.sites import DEFAULT_HOST, DEFAULT_PORT
from webgym.sites.booking.routes import BOOKING
from webgym.sites.broken import BROKEN
from webgym.sites.captcha import CAPTCHA
from webgym.sites.encyclopedia.pages import ENCYCLOPEDIA
from webgym.sites.errors import PageError, SitesError
from webgym.sites.sessions import SESSIONS, SiteSessions, complete_response, cookie_of, find_session
from webgym.sites.shop.routes import SHOP
from webgym.sites.site import REQUEST_BYTES, Markup, StaticFiles, Template, page_response
from webgym.sites.slow import SLOW, WAITING, WaitingVisitors
from webgym.sites.widgets import WIDGETS

SITES = (SHOP, ENCYCLOPEDIA, BOOKING, SLOW, WIDGETS, BROKEN, CAPTCHA)
_FOLDER = Path(__file__).parent
_PAGE = Template.of(_FOLDER / "index.html")
_INDEX = Template(
    "<h1>Test sites</h1><p>A small web of our own. Nothing in it is real.</p><ul>{items}</ul>"
)
_ITEM = Template('<li><a href="/{name}/">{title}</a><p>{summary}</p></li>')
_ERROR = Template(
    '<h1>{phrase}</h1><p>{message}</p><p><a href="{back}">Back to the start page</a></p>'
)
_SESSION_NAME = "{session:[A-Za-z0-9]{1,64}}"


def serving(host: str = DEFAULT_HOST, port: int = DEFAULT_PORT) -> AbstractAsyncContextManager[str]:
    """Serve all the sites until the end of the block; gives their URL, without a slash at its end.

    Port 0 is any free port. Raises SitesError.
    """
    return served(make_application(), host, port, SitesError)


def make_application() -> web.Application:
    """The application to serve."""
    application = web.Application(
        middlewares=[_show_errors, find_session], client_max_size=REQUEST_BYTES
    )
    application[SESSIONS] = SiteSessions()
    application[WAITING] = WaitingVisitors()
    application.on_response_prepare.append(complete_response)
    application.add_routes(_index_routes())
    application.add_routes(
        [
            web.get("/_truth", _send_state),
            web.get(f"/_truth/{_SESSION_NAME}", _send_state),
            web.post("/_reset", _reset),
            web.post(f"/_reset/{_SESSION_NAME}", _reset),
        ]
    )
    for site in SITES:
        application.add_routes(site.routes)
    return application


def _index_routes() -> list[web.RouteDef]:
    items = [_ITEM(name=site.name, title=site.title, summary=site.summary) for site in SITES]
    index = _PAGE(title="Test sites", body=_INDEX(items=items))

    async def show_index(_: web.Request) -> web.Response:
        return page_response(index)

    static = StaticFiles(_FOLDER / "static")
    redirects = [web.get(f"/{site.name}", _add_slash) for site in SITES]
    return [web.get("/", show_index), web.get("/static/{file}", static.send), *redirects]


async def _add_slash(request: web.Request) -> web.Response:
    raise web.HTTPMovedPermanently(f"{request.path}/")


async def _send_state(request: web.Request) -> web.Response:
    name = _session_name(request)
    session = request.config_dict[SESSIONS].find(name) if name else None
    if session is None:
        return json_response({"error": "there is no such session"}, HTTPStatus.NOT_FOUND)
    return json_response(session)


async def _reset(request: web.Request) -> web.Response:
    name = _session_name(request)
    if name is None:
        return json_response({"error": "the request names no session"}, HTTPStatus.BAD_REQUEST)
    return json_response(request.config_dict[SESSIONS].reset(name))


def _session_name(request: web.Request) -> str | None:
    name = request.match_info.get("session") or cookie_of(request)
    return name if name and is_session_name(name) else None


@web.middleware
async def _show_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn an error into a page that explains it."""
    try:
        return await handler(request)
    except PageError as error:
        status, message = error.status, str(error)
    except web.HTTPNotFound:
        status, message = HTTPStatus.NOT_FOUND, "There is nothing at this address."
    except web.HTTPClientError as error:
        status, message = HTTPStatus(error.status), "The request could not be understood."
    return page_response(_error_page(request.path, status, message), status)


def _error_page(path: str, status: HTTPStatus, message: str) -> Markup:
    """The error, with a link to the start page of its site."""
    site = path.split("/")[1] if path.count("/") > 1 else ""
    back = f"/{site}/" if site.isalpha() else "/"
    title = f"{status.value} {status.phrase}"
    return _PAGE(title=title, body=_ERROR(phrase=title, message=message, back=back))
