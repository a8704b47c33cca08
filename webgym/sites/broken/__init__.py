"""A site in disrepair: errors, loops, traps, unusual HTML, and responses that break off."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from http import HTTPStatus
from pathlib import Path

from aiohttp import web

from webgym.served import json_response
from webgym.sites.errors import InvalidInputError, MissingPageError
from webgym.sites.sessions import PRESSED_KEPT, session_of
from webgym.sites.site import (
    Site,
    Template,
    append_bounded,
    page_response,
    read_form,
    read_number,
    read_query,
    stream_response,
)

MOST_MEGABYTES = 200
LONGEST_CHAIN = 1_000
SOCKET_MESSAGES = 100
SOCKET_SECONDS = 60.0
_MEGABYTE = 1_000_000
_NO_LINGER = struct.pack("ii", 1, 0)

_FOLDER = Path(__file__).parent
_PAGES = {path.stem: path.read_bytes() for path in (_FOLDER / "pages").glob("*.html")}
_INDEX = Template.of(_FOLDER / "index.html")
_ROW = Template('<tr><td><a href="/broken/{path}">{name}</a></td><td>{text}</td></tr>')
# Scripts are allowed in these pages, because they show nothing that a visitor sent.
_LOOSE = {
    "Content-Security-Policy": (
        "default-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src *; base-uri 'none'"
    )
}
_WORKER = b"""
self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));
self.addEventListener("fetch", () => {});
setInterval(() => {}, 1000);
"""
_CONTENTS = (
    ("status/500", "Server error", "answers 500"),
    ("status/503", "Unavailable", "answers 503"),
    ("status/404", "Missing", "answers 404"),
    ("loop", "Redirect loop", "redirects to itself"),
    ("chain?left=30", "Redirect chain", "thirty redirects in a row"),
    ("reset", "Connection reset", "resets the connection"),
    ("hang-up", "No answer", "closes the connection"),
    ("cut-short", "Cut short", "sends half of a page"),
    ("malformed", "Malformed HTML", "unclosed and misplaced tags"),
    ("alerts", "Alert loop", "alerts without end"),
    ("dialogs", "Dialogs", "an alert, a question and a prompt"),
    ("windows", "Popups", "opens windows by itself"),
    ("leaving", "Before leaving", "asks whether you are sure"),
    ("growing", "Growing page", "adds elements without end"),
    ("busy", "Busy script", "blocks the page when asked to think"),
    ("refresh", "Reloading", "loads itself again every second"),
    ("history", "History trap", "cannot be left by going back"),
    ("tabs", "New tabs", "links that open tabs"),
    ("downloads", "Downloads", "files to download"),
    ("frames", "Frames", "a frame within a frame"),
    ("shadow", "Shadow trees", "controls in shadow roots"),
    ("worker", "Service worker", "registers a worker"),
    ("socket", "Web socket", "keeps a connection open"),
    ("sign-in", "Password", "asks for a password"),
    ("big?megabytes=5", "Big page", "five megabytes of lines"),
)


BROKEN = Site(
    name="broken",
    title="The Rusty Anchor",
    summary="Errors, loops, traps, popups, frames and shadow trees.",
    folder=_FOLDER,
)


@BROKEN.get("")
async def _index(_: web.Request) -> web.Response:
    rows = [_ROW(path=path, name=name, text=text) for path, name, text in _CONTENTS]
    return page_response(_INDEX(rows=rows))


@BROKEN.post("press")
async def _press(request: web.Request) -> web.Response:
    state, fields = session_of(request).broken, await read_form(request)
    name, text = fields.get("name", ""), fields.get("text", "")
    append_bounded(state.pressed, name, PRESSED_KEPT)
    if text:
        append_bounded(state.texts, text, PRESSED_KEPT)
    message = f"Heard: {name}" + (f" ({text})" if text else "")
    return json_response({"message": message})


@BROKEN.get("worker.js")
async def _worker(_: web.Request) -> web.Response:
    return web.Response(body=_WORKER, content_type="text/javascript")


@BROKEN.get("status/{code:[0-9]{3}}")
async def _status(request: web.Request) -> web.Response:
    """Any status between 400 and 599."""
    code = int(request.match_info["code"])
    if not 400 <= code <= 599:
        raise InvalidInputError("The status must be from 400 to 599.")
    session_of(request).broken.failures += 1
    try:
        phrase = HTTPStatus(code).phrase
    except ValueError:
        phrase = "Unknown"
    text = (
        f"<!doctype html><title>{code} {phrase}</title><h1>{code} {phrase}</h1>"
        "<hr><address>anchor/0.4 (rust)</address>"
    )
    return web.Response(text=text, content_type="text/html", status=code)


@BROKEN.get("loop")
async def _redirect_to_itself(request: web.Request) -> web.Response:
    session_of(request).broken.redirects += 1
    raise web.HTTPFound("/broken/loop")


@BROKEN.get("chain")
async def _redirect_chain(request: web.Request) -> web.Response:
    """A chain of redirects of the requested length, each to another address, and then a page."""
    left = read_number(read_query(request), "left", 30, 0, LONGEST_CHAIN)
    session_of(request).broken.redirects += 1
    raise web.HTTPFound(f"/broken/chain?left={left - 1}" if left else "/broken/")


@BROKEN.get("reset")
async def _reset(request: web.Request) -> web.StreamResponse:
    """Reset the connection without a response."""
    _reset_connection(request)
    return web.StreamResponse()


@BROKEN.get("hang-up")
async def _hang_up(request: web.Request) -> web.StreamResponse:
    """Close the connection without a response."""
    if request.transport is not None:
        request.transport.close()
    return web.StreamResponse()


@BROKEN.get("cut-short")
async def _cut_short(request: web.Request) -> web.StreamResponse:
    """Send half of a page, and then reset the connection."""
    response = web.StreamResponse(headers={"Content-Length": "100000"})
    response.content_type = "text/html"
    await response.prepare(request)
    await response.write(b"<!doctype html><title>Cut short</title><h1>The first half of a")
    _reset_connection(request)
    return response


@BROKEN.get("big")
async def _big(request: web.Request) -> web.StreamResponse:
    """A page of the requested number of megabytes."""
    megabytes = read_number(read_query(request), "megabytes", 10, 1, MOST_MEGABYTES)
    return await stream_response(request, _lines(megabytes))


async def _lines(megabytes: int) -> AsyncIterator[bytes]:
    row = b"<p>One more line of the longest log of the isles, number %08d.</p>\n"
    at_a_time = _MEGABYTE // len(row % 0)
    yield b"<!doctype html><title>Big</title><h1>A big page</h1>"
    for first in range(0, megabytes * at_a_time, at_a_time):
        yield b"".join(row % number for number in range(first, first + at_a_time))
        await asyncio.sleep(0)


@BROKEN.get("file/{name:[a-z]{1,20}[.][a-z]{1,5}}")
async def _download(request: web.Request) -> web.Response:
    session_of(request).broken.downloads += 1
    name = request.match_info["name"]
    return web.Response(
        body=b"barrel,rope,salt\n12,40,9\n" * 400,
        content_type="application/octet-stream",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


@BROKEN.get("sign-in")
async def _sign_in(request: web.Request) -> web.Response:
    """Ask for a user name and a password; none is accepted."""
    session_of(request).broken.failures += 1
    return web.Response(
        text="<!doctype html><title>Locked</title><h1>Crew only</h1>",
        content_type="text/html",
        status=HTTPStatus.UNAUTHORIZED,
        headers={"WWW-Authenticate": 'Basic realm="Crew only"'},
    )


@BROKEN.get("line")
async def _line(request: web.Request) -> web.WebSocketResponse:
    """A web socket that echoes messages, for a bounded time."""
    response = web.WebSocketResponse(max_msg_size=4_096, timeout=5.0)
    await response.prepare(request)
    try:
        async with asyncio.timeout(SOCKET_SECONDS):
            for _ in range(SOCKET_MESSAGES):
                message = await response.receive()
                if message.type != web.WSMsgType.TEXT:
                    break
                await response.send_str(message.data)
    except TimeoutError:
        pass
    await response.close()
    return response


def _reset_connection(request: web.Request) -> None:
    transport = request.transport
    if transport is None:
        return
    connection = transport.get_extra_info("socket")
    if connection is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
    transport.abort()


@BROKEN.get("{page}")
async def _page(request: web.Request) -> web.Response:
    """Registered last, because its path matches all others too."""
    body = _PAGES.get(request.match_info["page"])
    if body is None:
        raise MissingPageError("Even the broken site has no such page.")
    return web.Response(body=body, content_type="text/html", charset="utf-8", headers=_LOOSE)
