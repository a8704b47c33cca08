"""Sessions: everything that one visitor did on all the sites, which the tasks' checks ask for.

Each site keeps its part of the session. The parts are plain data, so the state that `/_truth`
answers is the session written as JSON. Everything in it is bounded, and so is the number of
sessions: the session that was idle longest is removed first.

*Names.* A session is named by a cookie that the first page sets. A URL with `?session=NAME` chooses
the name, so that the verifier can ask for the session afterwards; the server redirects to the same
URL without the name. Opening that URL again continues the session. Images, styles and scripts have
no session, and neither have missing pages.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from http import HTTPStatus

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler

from webgym.served import is_session_name, new_session_name
from webgym.sites import COOKIE, PARAMETER
from webgym.sites.booking.cabins import BookingState
from webgym.sites.errors import InvalidInputError
from webgym.sites.shop.orders import ShopState
from webgym.sites.site import append_bounded

SESSION_LIMIT = 4_096
SESSION_SECONDS = 6 * 3600.0
VISITS_KEPT = 200
SEARCHES_KEPT = 50
PRESSED_KEPT = 100
TITLES_KEPT = 200
URL_CHARACTERS = 300
_STATELESS = frozenset(("static", "picture"))
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'self'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
}


class EncyclopediaState(msgspec.Struct):
    """The titles of the articles that were opened, and the texts searched for, in their order."""

    read: list[str] = msgspec.field(default_factory=list)
    searches: list[str] = msgspec.field(default_factory=list)


class CaptchaState(msgspec.Struct):
    """How often the visitor saw the wall, and tried to get past it."""

    walls: int = 0
    attempts: int = 0


class SlowState(msgspec.Struct):
    """Whether the late button printed the report, the address for warnings, and entries loaded."""

    report_printed: bool = False
    subscribed: str = ""
    entries_loaded: int = 0


class BrokenState(msgspec.Struct):
    """What happened on the broken site; `pressed` are the names of pressed buttons, in order."""

    pressed: list[str] = msgspec.field(default_factory=list)
    texts: list[str] = msgspec.field(default_factory=list)
    downloads: int = 0
    redirects: int = 0
    failures: int = 0


class WidgetsState(msgspec.Struct):
    """The values that were set, by the name of the control."""

    values: dict[str, str] = msgspec.field(default_factory=dict)
    changes: int = 0


class Visit(msgspec.Struct, frozen=True):
    """A page that was shown."""

    path: str
    query: str


class SiteSession(msgspec.Struct):
    """One visitor; of the visited pages, the latest are kept.

    `lost` says that the visitor had a session before that was removed, so that more may have
    happened than is known here.
    """

    session: str
    lost: bool = False
    visit_count: int = 0
    visits: list[Visit] = msgspec.field(default_factory=list)
    shop: ShopState = msgspec.field(default_factory=ShopState)
    encyclopedia: EncyclopediaState = msgspec.field(default_factory=EncyclopediaState)
    booking: BookingState = msgspec.field(default_factory=BookingState)
    captcha: CaptchaState = msgspec.field(default_factory=CaptchaState)
    slow: SlowState = msgspec.field(default_factory=SlowState)
    broken: BrokenState = msgspec.field(default_factory=BrokenState)
    widgets: WidgetsState = msgspec.field(default_factory=WidgetsState)

    def add_visit(self, visit: Visit) -> None:
        self.visit_count += 1
        append_bounded(self.visits, visit, VISITS_KEPT)


class SiteSessions:
    """Sessions by name."""

    def __init__(
        self,
        limit: int = SESSION_LIMIT,
        seconds: float = SESSION_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limit = limit
        self._seconds = seconds
        self._clock = clock
        self._sessions: OrderedDict[str, tuple[float, SiteSession]] = OrderedDict()

    def __len__(self) -> int:
        self._remove_expired()
        return len(self._sessions)

    def find(self, name: str) -> SiteSession | None:
        """The session, without counting as a visit."""
        self._remove_expired()
        known = self._sessions.get(name)
        return known[1] if known else None

    def visit(self, name: str, *, known_before: bool) -> SiteSession:
        """The visitor's session, made if it does not exist.

        With `known_before` the visitor has been here before, so a session that does not exist any
        more was lost.
        """
        return self._keep(self.find(name) or SiteSession(name, lost=known_before))

    def reset(self, name: str) -> SiteSession:
        """Start the session over, with nothing done."""
        return self._keep(SiteSession(name))

    def _keep(self, session: SiteSession) -> SiteSession:
        self._sessions[session.session] = (self._clock(), session)
        self._sessions.move_to_end(session.session)
        while len(self._sessions) > self._limit:
            self._sessions.popitem(last=False)
        return session

    def _remove_expired(self) -> None:
        oldest = self._clock() - self._seconds
        while self._sessions:
            name, (last_visit, _) = next(iter(self._sessions.items()))
            if last_visit >= oldest:
                return
            del self._sessions[name]


SESSIONS = web.AppKey("sessions", SiteSessions)
_SESSION = web.RequestKey("session", SiteSession)


def session_of(request: web.Request) -> SiteSession:
    """The session of the visitor who sent this request to a page."""
    return request[_SESSION]


@web.middleware
async def find_session(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Find or make the visitor's session. Raises HTTPSeeOther, InvalidInputError."""
    if not _has_session(request):
        return await handler(request)
    sessions, known = request.config_dict[SESSIONS], cookie_of(request)
    wanted = request.query.get(PARAMETER)
    if wanted is not None and request.method in ("GET", "HEAD"):
        if not is_session_name(wanted):
            raise InvalidInputError("A session's name has 1 to 64 letters and digits.")
        request[_SESSION] = sessions.visit(wanted, known_before=known == wanted)
        clean = request.rel_url.without_query_params(PARAMETER)
        raise web.HTTPSeeOther("/" + str(clean).lstrip("/\\"))
    name = known or new_session_name()
    request[_SESSION] = sessions.visit(name, known_before=known is not None)
    return await handler(request)


async def complete_response(request: web.Request, response: web.StreamResponse) -> None:
    """Set the session's cookie, record the visit, and add the headers of every response."""
    session = request.get(_SESSION)
    if session is not None:
        if cookie_of(request) != session.session:
            # The response's own cookies are already written into its headers here.
            cookie = f"{COOKIE}={session.session}; Path=/; HttpOnly; SameSite=Lax"
            response.headers.add("Set-Cookie", cookie)
        is_page = response.status == HTTPStatus.OK and response.content_type == "text/html"
        if is_page and request.method == "GET":
            path = request.rel_url.path[:URL_CHARACTERS]
            session.add_visit(Visit(path, request.rel_url.query_string[:URL_CHARACTERS]))
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)
    response.headers.setdefault("Cache-Control", "no-store")


def cookie_of(request: web.Request) -> str | None:
    """The session name in the visitor's cookie, if it is valid."""
    name = request.cookies.get(COOKIE)
    return name if name is not None and is_session_name(name) else None


def _has_session(request: web.Request) -> bool:
    if request.match_info.http_exception is not None or request.path.startswith("/_"):
        return False
    parts = request.path.split("/", 3)
    return len(parts) < 3 or parts[2] not in _STATELESS
