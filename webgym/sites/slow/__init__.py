"""A site whose pages come late, in pieces, after loading, or never.

Visitors wait for a bounded time, and a bounded number of them at once.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path

from aiohttp import web

from webgym.served import json_response
from webgym.sites.errors import InvalidInputError, PageError
from webgym.sites.markup import Content, Markup, Template, rendered
from webgym.sites.sessions import session_of
from webgym.sites.site import (
    Site,
    is_email,
    page_response,
    read_form,
    read_number,
    read_query,
    stream_response,
)
from webgym.sites.slow.content import LOG, READINGS, REPORT, STORMS, STORMS_AT_A_TIME

LONGEST_WAIT = 120.0
MAX_WAITING = 512


def read_seconds(fields: Mapping[str, str], default: float) -> float:
    """The `seconds` parameter of a URL. Raises InvalidInputError."""
    try:
        given = float(fields.get("seconds") or default)
    except ValueError:
        given = -1.0
    if not 0 <= given <= LONGEST_WAIT:
        raise InvalidInputError(f"“seconds” must be a number from 0 to {LONGEST_WAIT:.0f}.")
    return given


class WaitingVisitors:
    """Counts the waiting visitors."""

    def __init__(self, limit: int = MAX_WAITING) -> None:
        self._limit = limit
        self._count = 0

    @contextmanager
    def slot(self) -> Iterator[None]:
        """Count one visitor until the end of the block. Raises PageError if too many wait."""
        if self._count >= self._limit:
            raise PageError(HTTPStatus.SERVICE_UNAVAILABLE, "Too many visitors are waiting.")
        self._count += 1
        try:
            yield
        finally:
            self._count -= 1

    async def wait(self, duration: float) -> None:
        """Raises PageError."""
        with self.slot():
            await asyncio.sleep(duration)


WAITING = web.AppKey("waiting", WaitingVisitors)


_TEMPLATES = Path(__file__).with_name("templates")
_FRAME = Template.of(_TEMPLATES / "frame.html")
_HOME, _READINGS, _FORECAST, _REPORT, _ARCHIVE, _CAMERA, _SUBSCRIBE = (
    Template.of(_TEMPLATES / f"{name}.html")
    for name in ("home", "readings", "forecast", "report", "archive", "camera", "subscribe")
)
_LINE = Template("<div>{text}</div>")
_THANKS = Template("<p>Warnings go to <b>{email}</b> from now on.</p>")
_END = Markup("</main></body></html>")


def _page(title: str, *content: Content) -> web.Response:
    return page_response(rendered([_FRAME(title=title), *content, _END]))


async def _wait(request: web.Request, duration: float) -> None:
    await request.config_dict[WAITING].wait(duration)


SLOW = Site(
    name="slow",
    title="Tidewater Station",
    summary="Pages that come late, bit by bit, afterwards, or never.",
    folder=Path(__file__).parent,
)


@SLOW.get("")
async def _home(_: web.Request) -> web.Response:
    return _page("Tidewater Station", _HOME(), _SUBSCRIBE())


@SLOW.post("subscribe")
async def _subscribe(request: web.Request) -> web.Response:
    email = (await read_form(request)).get("email", "")
    if not is_email(email):
        raise InvalidInputError("This is no email address.")
    await _wait(request, 1.5)
    session_of(request).slow.subscribed = email
    raise web.HTTPSeeOther("/slow/subscribed")


@SLOW.get("subscribed")
async def _subscribed(request: web.Request) -> web.Response:
    return _page("Subscribed", _THANKS(email=session_of(request).slow.subscribed))


@SLOW.get("readings")
async def _readings(request: web.Request) -> web.Response:
    wait = read_seconds(read_query(request), 1.5)
    return _page("Readings", _READINGS(seconds=wait))


@SLOW.get("data/readings")
async def _readings_data(request: web.Request) -> web.Response:
    await _wait(request, read_seconds(read_query(request), 1.5))
    return json_response(READINGS)


@SLOW.get("forecast")
async def _forecast(request: web.Request) -> web.Response:
    await _wait(request, read_seconds(read_query(request), 2.0))
    return _page("Forecast", _FORECAST())


@SLOW.get("log")
async def _log(request: web.Request) -> web.StreamResponse:
    """Line by line: the browser shows the first lines while it waits for the rest."""
    wait = read_seconds(read_query(request), 3.0) / len(LOG)
    lines = [_LINE(text=text) for text in LOG]
    parts = [_FRAME(title="Log"), Markup('<div class="log">'), *lines, Markup("</div>"), _END]
    return await _stream_slowly(request, parts, wait)


@SLOW.get("endless")
async def _endless(request: web.Request) -> web.StreamResponse:
    """A page that stays incomplete for as long as a visitor may wait."""
    duration = read_seconds(read_query(request), LONGEST_WAIT)
    parts = [_FRAME(title="Endless")]
    parts += [_LINE(text=f"Line {number}") for number in range(1, int(duration) + 1)]
    return await _stream_slowly(request, parts, 1.0)


async def _stream_slowly(
    request: web.Request, parts: list[Markup], wait: float
) -> web.StreamResponse:
    async def slowly() -> AsyncIterator[bytes]:
        for part in parts:
            yield part.encode()
            await asyncio.sleep(wait)

    with request.config_dict[WAITING].slot():
        return await stream_response(request, slowly())


@SLOW.get("report")
async def _report(request: web.Request) -> web.Response:
    milliseconds = round(1000 * read_seconds(read_query(request), 2.0))
    return _page("Report", _REPORT(milliseconds=milliseconds))


@SLOW.post("report")
async def _print_report(request: web.Request) -> web.Response:
    session_of(request).slow.report_printed = True
    return json_response({"lines": REPORT})


@SLOW.get("archive")
async def _archive(_: web.Request) -> web.Response:
    return _page("Archive", _ARCHIVE())


@SLOW.get("data/storms")
async def _storms_data(request: web.Request) -> web.Response:
    first = read_number(read_query(request), "from", 0, 0, len(STORMS))
    await _wait(request, 0.3)
    entries = STORMS[first : first + STORMS_AT_A_TIME]
    last = first + STORMS_AT_A_TIME >= len(STORMS)
    state = session_of(request).slow
    state.entries_loaded = max(state.entries_loaded, first + len(entries))
    return json_response({"entries": entries, "last": last})


@SLOW.get("camera")
async def _camera(request: web.Request) -> web.Response:
    return _page("Camera", _CAMERA(seconds=read_seconds(read_query(request), 30.0)))


@SLOW.get("data/never")
async def _never(request: web.Request) -> web.Response:
    await _wait(request, read_seconds(read_query(request), 30.0))
    raise web.HTTPGatewayTimeout


@SLOW.get("data/picture")
async def _picture(request: web.Request) -> web.Response:
    """An image that delays the page that shows it."""
    await _wait(request, read_seconds(read_query(request), 20.0))
    svg = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 10 10"><circle r="9"/></svg>'
    return web.Response(text=svg, content_type="image/svg+xml")


@SLOW.get("held-up")
async def _held_up(request: web.Request) -> web.Response:
    wait = read_seconds(read_query(request), 20.0)
    image = Template('<p>The picture below comes late.</p><img src="{url}" alt="Late picture">')
    return _page("Held up", image(url=f"/slow/data/picture?seconds={wait}"))
