"""The truth about a visitor, for those who verify what an agent did.

`GET /_truth` is the session of whoever asks, `GET /_truth/NAME` any session by its name; `POST` to
`/_reset` or `/_reset/NAME` lets one begin anew. Asking leaves no trace in the session.
"""

from http import HTTPStatus

import msgspec
from aiohttp import web

from webgym.sites.names import is_name
from webgym.sites.session import Session
from webgym.sites.visitors import SESSIONS, cookie_of

_NAME = "{session:[A-Za-z0-9]{1,64}}"


def routes() -> list[web.RouteDef]:
    return [
        web.get("/_truth", _tell),
        web.get(f"/_truth/{_NAME}", _tell),
        web.post("/_reset", _reset),
        web.post(f"/_reset/{_NAME}", _reset),
    ]


async def _tell(request: web.Request) -> web.Response:
    name = _name(request)
    session = request.config_dict[SESSIONS].find(name) if name else None
    if session is None:
        return _json({"error": "there is no such session"}, HTTPStatus.NOT_FOUND)
    return _json(session)


async def _reset(request: web.Request) -> web.Response:
    name = _name(request)
    if name is None:
        return _json({"error": "the request names no session"}, HTTPStatus.BAD_REQUEST)
    return _json(request.config_dict[SESSIONS].reset(name))


def _name(request: web.Request) -> str | None:
    name = request.match_info.get("session") or cookie_of(request)
    return name if name and is_name(name) else None


def _json(content: Session | dict[str, str], status: HTTPStatus = HTTPStatus.OK) -> web.Response:
    return web.Response(
        body=msgspec.json.encode(content), content_type="application/json", status=status
    )
