"""The tasks over HTTP.

- `GET /task/NAME?seed=N&session=S` is the page of an episode. Without a session it leads on to the
  same page in a new one, whose name is then in the URL. `zoom` enlarges the page, `mode` chooses
  the data of those tasks that have several (`train`, `test`).
- `GET /_truth/S` says what happened in a session; `POST /_reset/S` lets one begin anew.
- `POST /_report/S` is how a page tells what happens. A page can be made to lie by an agent that
  runs scripts in it, which our actions do not.
- `GET /` and `GET /tasks.json` list the tasks.
"""

from http import HTTPStatus
from pathlib import Path
from typing import Annotated

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler

from webgym.miniwob.catalogue import Catalogue
from webgym.miniwob.episodes import (
    Ended,
    Episodes,
    OtherTaskError,
    Started,
    is_session_name,
    new_session_name,
)
from webgym.miniwob.errors import MiniWobError, MissingTaskError
from webgym.miniwob.package import Package
from webgym.miniwob.page import (
    LARGEST_SEED,
    LARGEST_ZOOM,
    Opening,
    enlarged_page,
    list_page,
    task_page,
)

LARGEST_REPORT = 64 * 1024
_OWN_FILES = Path(__file__).parent
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self' 'unsafe-inline' 'unsafe-eval' data:; form-action 'self'; "
        "frame-ancestors 'self'"
    ),
    "X-Content-Type-Options": "nosniff",
}
_REPORT = msgspec.json.Decoder(Started | Ended)


class _Query(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    seed: Annotated[int, msgspec.Meta(ge=0, le=LARGEST_SEED)] = 0
    session: str | None = None
    zoom: Annotated[float, msgspec.Meta(ge=0.1, le=LARGEST_ZOOM)] = 1.0
    mode: Annotated[str, msgspec.Meta(pattern="^[a-z]{1,20}$")] | None = None


class MiniWob:
    """The tasks of a package, and the episodes that were begun."""

    def __init__(self, package: Package) -> None:
        self._package = package
        self._catalogue = Catalogue(package)
        self._episodes = Episodes()

    def application(self) -> web.Application:
        application = web.Application(
            middlewares=[_explain_refusals], client_max_size=LARGEST_REPORT
        )
        application.on_response_prepare.append(_add_headers)
        application.add_routes(
            [
                web.get("/", self._list),
                web.get("/tasks.json", self._list_as_json),
                web.get("/task/{name}", self._open),
                web.get("/_truth/{session}", self._tell),
                web.post("/_report/{session}", self._note),
                web.post("/_reset/{session}", self._reset),
                web.get(r"/_static/{file:episode\.(js|css)}", self._own_file),
                web.static("/core", self._package.html / "core"),
                web.static("/common", self._package.html / "common"),
            ]
        )
        return application

    async def _list(self, _: web.Request) -> web.Response:
        return _page(list_page(self._catalogue.tasks.values()))

    async def _list_as_json(self, _: web.Request) -> web.Response:
        return _json(list(self._catalogue.tasks.values()))

    async def _open(self, request: web.Request) -> web.Response:
        task = self._catalogue.find(request.match_info["name"])
        query = _read_query(request)
        opening = Opening(task.name, query.seed, query.session, query.zoom, query.mode)
        if opening.session is None:
            own = msgspec.structs.replace(opening, session=new_session_name())
            raise web.HTTPSeeOther(own.url())
        if not is_session_name(opening.session):
            raise MiniWobError("a session's name has 1 to 64 letters and digits")
        truth = self._episodes.open(opening.session, task, opening.seed)
        if opening.zoom != 1:
            return _page(enlarged_page(opening))
        return _page(task_page(self._package.page(task.name), truth))

    async def _tell(self, request: web.Request) -> web.Response:
        truth = self._episodes.find(request.match_info["session"])
        return _json(truth) if truth else _no_session()

    async def _note(self, request: web.Request) -> web.Response:
        try:
            report = _REPORT.decode(await request.read())
        except msgspec.DecodeError as error:
            raise MiniWobError(f"the report cannot be read: {error}") from error
        known = self._episodes.note(request.match_info["session"], report)
        return _json({"status": "success"}) if known else _no_session()

    async def _reset(self, request: web.Request) -> web.Response:
        known = self._episodes.reset(request.match_info["session"])
        return _json({"status": "success"}) if known else _no_session()

    async def _own_file(self, request: web.Request) -> web.FileResponse:
        return web.FileResponse(_OWN_FILES / request.match_info["file"])


@web.middleware
async def _explain_refusals(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except OtherTaskError as error:
        return web.Response(text=f"{error}\n", status=HTTPStatus.CONFLICT)
    except MissingTaskError as error:
        return web.Response(text=f"{error}\n", status=HTTPStatus.NOT_FOUND)
    except MiniWobError as error:
        return web.Response(text=f"{error}\n", status=HTTPStatus.BAD_REQUEST)


async def _add_headers(request: web.Request, response: web.StreamResponse) -> None:
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)
    still = request.path.startswith(("/core/", "/common/"))
    response.headers.setdefault("Cache-Control", "max-age=3600" if still else "no-store")


def _read_query(request: web.Request) -> _Query:
    try:
        return msgspec.convert(dict(request.query), _Query, strict=False)
    except msgspec.ValidationError as error:
        raise MiniWobError(f"the query is wrong: {error}") from error


def _page(text: str) -> web.Response:
    return web.Response(text=text, content_type="text/html")


def _json(content: object, status: HTTPStatus = HTTPStatus.OK) -> web.Response:
    return web.Response(
        body=msgspec.json.encode(content), content_type="application/json", status=status
    )


def _no_session() -> web.Response:
    return _json({"error": "there is no such session"}, HTTPStatus.NOT_FOUND)
