"""The tasks over HTTP.

- `GET /task/NAME?seed=N&session=S` is the page of an episode. Without a session it redirects to the
  same page in a new session, whose name is then in the URL. `zoom` enlarges the page, `mode`
  chooses the data of tasks that have several kinds (`train`, `test`).
- `GET /_truth/S` is the state of a session; `POST /_reset/S` removes it.
- `POST /_report/S` is how a page reports events. An agent that runs scripts in the page could make
  it report wrong ones; our actions cannot run scripts.
- `GET /` and `GET /tasks.json` list the tasks.
"""

from contextlib import AbstractAsyncContextManager
from http import HTTPStatus
from pathlib import Path

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler

from rollgym.records.decoding import JsonDecoder
from rollgym.servers.bounds import read_body
from webgym.miniwob import DEFAULT_HOST, DEFAULT_PORT
from webgym.miniwob.episodes import (
    EpisodeAddress,
    EpisodeEnded,
    Episodes,
    EpisodeStarted,
    OtherTaskError,
    enlarged_page,
    list_page,
    task_page,
)
from webgym.miniwob.package import Catalogue, MiniWobError, MissingTaskError, Package, find_package
from webgym.served import is_session_name, json_response, new_session_name, served

LARGEST_REPORT = 64 * 1024
_OWN_FILES = Path(__file__).parent
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self' 'unsafe-inline' 'unsafe-eval' data:; form-action 'self'; "
        "frame-ancestors 'self'"
    ),
    "X-Content-Type-Options": "nosniff",
}
_REPORT = JsonDecoder(EpisodeStarted | EpisodeEnded)


class MiniWob:
    """The tasks of a package, and their episodes."""

    def __init__(self, package: Package) -> None:
        self._package = package
        self._catalogue = Catalogue(package)
        self._episodes = Episodes()

    def application(self) -> web.Application:
        application = web.Application(middlewares=[_explain_errors], client_max_size=LARGEST_REPORT)
        application.on_response_prepare.append(_add_headers)
        application.add_routes(
            [
                web.get("/", self._list),
                web.get("/tasks.json", self._list_as_json),
                web.get("/task/{name}", self._open),
                web.get("/_truth/{session}", self._send_state),
                web.post("/_report/{session}", self._take_report),
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
        return json_response(list(self._catalogue.tasks.values()))

    async def _open(self, request: web.Request) -> web.Response:
        task = self._catalogue.find(request.match_info["name"])
        address = _read_address(request, task.name)
        if address.session is None:
            in_session = msgspec.structs.replace(address, session=new_session_name())
            raise web.HTTPSeeOther(in_session.url())
        if not is_session_name(address.session):
            raise MiniWobError("a session's name has 1 to 64 letters and digits")
        state = self._episodes.open(address.session, task, address.seed)
        if address.zoom != 1:
            return _page(enlarged_page(address))
        return _page(task_page(self._package.page(task.name), state))

    async def _send_state(self, request: web.Request) -> web.Response:
        state = self._episodes.find(request.match_info["session"])
        return json_response(state) if state else _no_session()

    async def _take_report(self, request: web.Request) -> web.Response:
        try:
            report = _REPORT.decode(await read_body(request))
        except msgspec.DecodeError as error:
            raise MiniWobError(f"the report cannot be read: {error}") from error
        known = self._episodes.apply(request.match_info["session"], report)
        return json_response({"status": "success"}) if known else _no_session()

    async def _reset(self, request: web.Request) -> web.Response:
        known = self._episodes.reset(request.match_info["session"])
        return json_response({"status": "success"}) if known else _no_session()

    async def _own_file(self, request: web.Request) -> web.FileResponse:
        return web.FileResponse(_OWN_FILES / request.match_info["file"])


@web.middleware
async def _explain_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
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
    is_static = request.path.startswith(("/core/", "/common/"))
    response.headers.setdefault("Cache-Control", "max-age=3600" if is_static else "no-store")


def _read_address(request: web.Request, task: str) -> EpisodeAddress:
    try:
        return msgspec.convert({**request.query, "task": task}, EpisodeAddress, strict=False)
    except msgspec.ValidationError as error:
        raise MiniWobError(f"the query is wrong: {error}") from error


def _page(text: str) -> web.Response:
    return web.Response(text=text, content_type="text/html")


def _no_session() -> web.Response:
    return json_response({"error": "there is no such session"}, HTTPStatus.NOT_FOUND)


def serving(
    host: str = DEFAULT_HOST, port: int = DEFAULT_PORT, package: Package | None = None
) -> AbstractAsyncContextManager[str]:
    """Serve all tasks until the end of the block; gives their URL, without a slash at its end.

    Port 0 is any free port. Raises MiniWobError.
    """
    application = MiniWob(package or find_package()).application()
    return served(application, host, port, MiniWobError)
