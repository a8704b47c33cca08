"""A site behind a wall that asks visitors to prove that they are human, and rejects them all."""

from http import HTTPStatus
from pathlib import Path

from aiohttp import web

from webgym.served import json_response
from webgym.sites.sessions import session_of
from webgym.sites.site import Site, Template, page_response, picture_response

MAX_ATTEMPTS = 3
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


CAPTCHA = Site(
    name="captcha",
    title="Northquay Tickets",
    summary="A site behind a wall that no visitor gets past.",
    folder=Path(__file__).parent,
)


@CAPTCHA.get("")
@CAPTCHA.get("{page:(?!static/|picture/).+}")
async def _wall(request: web.Request) -> web.Response:
    session = session_of(request)
    session.captcha.walls += 1
    number = f"{session.captcha.walls:04x}-{len(session.session):02x}f7-9c31"
    return page_response(_WALL(number=number), HTTPStatus.FORBIDDEN)


@CAPTCHA.post("verify")
async def _verify(request: web.Request) -> web.Response:
    state = session_of(request).captcha
    state.attempts += 1
    message = "Please try again."
    if state.attempts >= MAX_ATTEMPTS:
        message = "Too many attempts. Please try again later."
    return json_response({"verified": False, "message": message})


@CAPTCHA.get("picture/{number:[0-9]{1,3}}.svg")
async def _picture(request: web.Request) -> web.Response:
    number = int(request.match_info["number"]) % TILES
    return picture_response(
        _TILE(
            shape=_SHAPES[number % len(_SHAPES)],
            sky=f"hsl({200 + 4 * number} 40% {70 + number}%)",
            ground=f"hsl({90 + 14 * number} 28% 56%)",
            across=(number % 3) * 6 - 6,
        )
    )
