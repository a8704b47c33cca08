"""A site whose pages come late, in pieces, after loading, or never.

Visitors wait for a bounded time, and a bounded number of them at once.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from random import Random

import msgspec
from aiohttp import web

from webgym.served import json_response
from webgym.sites.errors import InvalidInputError, PageError
from webgym.sites.sessions import session_of
from webgym.sites.site import (
    Content,
    Markup,
    Site,
    Template,
    is_email,
    page_response,
    read_form,
    read_number,
    read_query,
    rendered,
    stream_response,
)

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


READINGS = (
    ("Sule Reef", "2.41 m", "+0.18 m", "9.6 °C"),
    ("Sule Haven", "2.17 m", "+0.15 m", "9.9 °C"),
    ("Fennaby", "1.86 m", "+0.11 m", "10.3 °C"),
    ("Port Selwick", "1.58 m", "+0.09 m", "10.8 °C"),
    ("Tarrowmouth", "2.73 m", "+0.22 m", "9.1 °C"),
    ("Wick Holm", "1.32 m", "+0.05 m", "11.2 °C"),
)
LOG = (
    "06:02 Lamp out. Sky clear, sea calm.",
    "07:40 Supply boat delayed by fog.",
    "09:15 Wind gauge cleaned of gull.",
    "11:34 High water, 3.87 m.",
    "13:20 Supply boat in. Two crates of oil, one of tea, no mail.",
    "15:05 Buoy 7 reported adrift by a trawler.",
    "16:50 Buoy 7 secured by the pilot cutter.",
    "19:30 Lamp lit by Keeper Halvorsen.",
    "21:00 Last ferry cancelled because of wind.",
    "22:45 Gust of 34 m/s, the strongest of the month.",
)
REPORT = (
    "Monthly report 5/2030, number TS-7731",
    "Mean water level: 2.08 m. Highest: 4.12 m, on the 19th.",
    "Hours of fog: 61. Ships counted: 284.",
)
STORMS_AT_A_TIME = 8
_NAMES = (
    "Agda", "Bror", "Clara", "Dagny", "Egil", "Frida", "Gorm", "Hilda", "Isak", "Judith",
    "Knut", "Liv", "Maren", "Nils", "Oda", "Peder", "Ragna", "Sten", "Tora", "Ulf",
)  # fmt: skip


class Storm(msgspec.Struct, frozen=True):
    title: str
    text: str


def _storms() -> tuple[Storm, ...]:
    random = Random(1970)  # noqa: S311 - the numbers must repeat
    found = []
    for at in range(60):
        year, gust, hours = 2029 - at, random.randint(29, 44), random.randint(6, 39)
        name = _NAMES[at % len(_NAMES)]
        damage = random.choice(("no damage", "roofs damaged", "a pier lost", "ferries cancelled"))
        text = f"{hours} hours, strongest gust {gust} m/s, {damage}."
        found.append(Storm(f"Storm {name} ({year})", text))
    # One stands out, so that there is something to look for.
    found[41] = Storm("Storm Bror (1988)", "52 hours, strongest gust 51 m/s, the lamp was lost.")
    return tuple(found)


STORMS = _storms()


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
        raise InvalidInputError("This is not an email address.")
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
