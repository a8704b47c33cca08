"""From a URL to a page.

Pages are made in a thread, since reading a large file takes a while, and one at a time, since they
share what is known of the file. The only files that any URL leads to are those opened at the start.
"""

import asyncio
import threading
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from rollgym.rollouts.paths import RolloutPaths
from rollgym.store.errors import StorageError
from rollgym.viewer.access import HEADERS, Access
from rollgym.viewer.errors import PageError
from rollgym.viewer.frame import STYLE_URL, Place, page
from rollgym.viewer.index import RolloutIndex
from rollgym.viewer.list_page import list_page
from rollgym.viewer.markup import element
from rollgym.viewer.rollout_page import rollout_page
from rollgym.viewer.selection import Filter

READING_SECONDS = 0.5
PAGE_PATIENCE = 30.0
ROLLOUTS, FAILURES = "rollouts", "failures"
_STYLE = Path(__file__).with_name("style.css")
_MakePage = Callable[[Place, RolloutIndex], bytes]


class Viewer:
    """The opened file, with the failures beside it as soon as there are any."""

    def __init__(self, path: Path) -> None:
        failures = RolloutPaths.of(path.with_suffix(".jsonl")).failures
        self._indexes = {ROLLOUTS: RolloutIndex(path), FAILURES: RolloutIndex(failures)}
        self._one_at_a_time = threading.Lock()
        self._style = _STYLE.read_bytes()

    def application(self, access: Access) -> web.Application:
        """To be served; closes the files at its end."""
        application = web.Application(middlewares=[self._checking(access)])
        application.on_response_prepare.append(_add_headers)
        application.on_cleanup.append(self._close)
        route, section = application.router.add_get, f"{{section:{ROLLOUTS}|{FAILURES}}}"
        route("/", self._start)
        route(STYLE_URL, self._get_style)
        route(f"/{section}", self._get_list)
        route(f"/{section}/{{line:[0-9]{{1,15}}}}", self._get_rollout)
        route(f"/{section}/{{line:[0-9]{{1,15}}}}.json", self._get_line)
        return application

    async def _start(self, _: web.Request) -> web.Response:
        raise web.HTTPFound(f"/{ROLLOUTS}")

    async def _get_style(self, _: web.Request) -> web.Response:
        return web.Response(body=self._style, content_type="text/css", charset="utf-8")

    async def _get_list(self, request: web.Request) -> web.Response:
        wanted, number = Filter.of(request.query), request.query.get("page") or "1"
        if not number.isdecimal() or len(number) > 15:
            raise PageError(HTTPStatus.BAD_REQUEST, "The page must be a number, as in ?page=2.")
        return _html(
            await self._make(
                request, lambda place, index: list_page(place, index, wanted, int(number))
            )
        )

    async def _get_rollout(self, request: web.Request) -> web.Response:
        wanted, line = Filter.of(request.query), int(request.match_info["line"])

        def make(place: Place, index: RolloutIndex) -> bytes:
            _require(index, line)
            return rollout_page(place, index, wanted, line)

        return _html(await self._make(request, make))

    async def _get_line(self, request: web.Request) -> web.Response:
        line = int(request.match_info["line"])

        def make(_: Place, index: RolloutIndex) -> bytes:
            _require(index, line)
            return index.line(line)

        body = await self._make(request, make)
        return web.Response(body=body, content_type="application/json")

    async def _make(self, request: web.Request, make: _MakePage) -> bytes:
        """Read what is new in the file and make the page from it. Raises PageError."""
        section = request.match_info["section"]
        try:
            async with asyncio.timeout(PAGE_PATIENCE):
                return await asyncio.to_thread(self._make_now, section, make)
        except TimeoutError as error:
            raise PageError(
                HTTPStatus.SERVICE_UNAVAILABLE, "The file is slow to be read; try again later."
            ) from error
        except StorageError as error:
            raise PageError(HTTPStatus.SERVICE_UNAVAILABLE, str(error)) from error

    def _make_now(self, section: str, make: _MakePage) -> bytes:
        with self._one_at_a_time:
            index = self._indexes[section]
            if section == FAILURES and not index.path.exists():
                raise PageError(HTTPStatus.NOT_FOUND, f"There is no {index.path.name} so far.")
            read = 1.0 if index.extend(READING_SECONDS) else index.read / index.size
            return make(self._place(section, read), index)

    def _place(self, section: str, read: float) -> Place:
        sections = tuple(
            name for name, index in self._indexes.items() if name == section or index.path.exists()
        )
        return Place(section, sections, self._indexes[section].path.name, read)

    def _checking(self, access: Access) -> Middleware:
        @web.middleware
        async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
            try:
                access.check(request)
                return await handler(request)
            except PageError as error:
                status, message = error.status, str(error)
            except web.HTTPClientError as error:
                status, message = HTTPStatus(error.status), "There is no such page."
            # Whoever was refused is not told which file it is.
            place = Place("", (), "rollgym viewer")
            return _html(page(place, status.phrase, element("p", message)), status)

        return check

    async def _close(self, _: web.Application) -> None:
        await asyncio.to_thread(self._close_now)

    def _close_now(self) -> None:
        with self._one_at_a_time:
            for index in self._indexes.values():
                index.close()


def _require(index: RolloutIndex, line: int) -> None:
    if not 1 <= line <= len(index):
        raise PageError(
            HTTPStatus.NOT_FOUND, f"There is no line {line}: {len(index)} lines have been read."
        )


def _html(body: bytes, status: int = HTTPStatus.OK) -> web.Response:
    return web.Response(body=body, status=status, content_type="text/html", charset="utf-8")


async def _add_headers(_: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(HEADERS)
