"""A site in disrepair: errors, loops, traps, and unusual HTML."""

from pathlib import Path

from aiohttp import web

from webgym.served import json_response
from webgym.sites.broken import faults
from webgym.sites.errors import MissingPageError
from webgym.sites.markup import Template
from webgym.sites.sessions import PRESSED_KEPT, session_of
from webgym.sites.site import Site, append_bounded, page_response, read_form

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

_FAULTS = {
    "status/{code:[0-9]{3}}": faults.status,
    "loop": faults.redirect_to_itself,
    "chain": faults.redirect_chain,
    "reset": faults.reset,
    "hang-up": faults.hang_up,
    "cut-short": faults.cut_short,
    "big": faults.big,
    "file/{name:[a-z]{1,20}[.][a-z]{1,5}}": faults.download,
    "sign-in": faults.sign_in,
    "line": faults.line,
}


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


for _path, _handler in _FAULTS.items():
    BROKEN.get(_path)(_handler)


@BROKEN.get("{page}")
async def _page(request: web.Request) -> web.Response:
    """Registered last, because its path matches all others too."""
    body = _PAGES.get(request.match_info["page"])
    if body is None:
        raise MissingPageError("Even the broken site has no such page.")
    return web.Response(body=body, content_type="text/html", charset="utf-8", headers=_LOOSE)
