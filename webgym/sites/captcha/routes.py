"""Whatever is asked for, the wall is the answer."""

from http import HTTPStatus
from pathlib import Path

import msgspec
from aiohttp import web

from webgym.sites.markup import Template
from webgym.sites.site import Site, page, picture
from webgym.sites.visitors import session_of

PATIENCE = 3
TILES = 12
_WALL = Template.of(Path(__file__).with_name("wall.html"))
_TILE = Template(
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 100 100">'
    '<rect width="100" height="60" fill="{sky}"/><rect y="60" width="100" height="40" '
    'fill="{ground}"/><g transform="translate({across} 0)">{shape}</g></svg>'
)
_SHAPES = [
    Template.of(path)() for path in sorted(Path(__file__).with_name("drawings").glob("*.svg"))
]


async def _wall(request: web.Request) -> web.Response:
    session = session_of(request)
    session.captcha.walls += 1
    number = f"{session.captcha.walls:04x}-{len(session.session):02x}f7-9c31"
    return page(_WALL(number=number), HTTPStatus.FORBIDDEN)


async def _verify(request: web.Request) -> web.Response:
    state = session_of(request).captcha
    state.attempts += 1
    message = "Please try again."
    if state.attempts >= PATIENCE:
        message = "Too many attempts. Please try again later."
    body = msgspec.json.encode({"verified": False, "message": message})
    return web.Response(body=body, content_type="application/json")


async def _picture(request: web.Request) -> web.Response:
    number = int(request.match_info["number"]) % TILES
    return picture(
        _TILE(
            shape=_SHAPES[number % len(_SHAPES)],
            sky=f"hsl({200 + 4 * number} 40% {70 + number}%)",
            ground=f"hsl({90 + 14 * number} 28% 56%)",
            across=(number % 3) * 6 - 6,
        )
    )


CAPTCHA = Site(
    name="captcha",
    title="Northquay Tickets",
    summary="A site behind a wall that no visitor gets past.",
    folder=Path(__file__).parent,
    routes=(
        web.get("/captcha/", _wall),
        web.post("/captcha/verify", _verify),
        web.get("/captcha/picture/{number:[0-9]{1,3}}.svg", _picture),
        web.get("/captcha/{page:(?!static/|picture/).+}", _wall),
    ),
)
