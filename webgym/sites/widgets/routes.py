"""From the console's addresses to its pages."""

from pathlib import Path

import msgspec
from aiohttp import web

from webgym.sites.errors import BadRequestError
from webgym.sites.forms import posted
from webgym.sites.markup import Template
from webgym.sites.site import Site, page
from webgym.sites.visitors import session_of

CONTROLS = frozenset(
    (
        "menu",
        "tab",
        "lamp",
        "colour",
        "brightness",
        "harbour",
        "duties",
        "alarm",
        "note",
        "keeper",
        "sea_state",
        "fog_horn",
        "shortcut",
        "log_entry",
        "supplies",
    )
)
_FOLDER = Path(__file__).parent
_CONSOLE = Template.of(_FOLDER / "templates" / "console.html")
_HARBOUR = Template('<li role="option" tabindex="0">{text}</li>')
_HARBOURS = (
    "Bracken Bay", "Brisay", "Causeway End", "Caldness", "East Grind", "Fennaby", "Gate",
    "Hest", "Holm", "Langness", "Norvoe", "Old Ferry", "Port Selwick", "Rade", "Sandvik",
    "Skerry Bay", "Stairfoot", "Storrfoot", "Sule Haven", "Tarrowmouth", "Ulvenhead",
    "Wether Point", "Wick Quay", "Yard Hill",
)  # fmt: skip


async def _console(_: web.Request) -> web.Response:
    return page(_CONSOLE(harbours=[_HARBOUR(text=name) for name in _HARBOURS]))


async def _set(request: web.Request) -> web.Response:
    fields = await posted(request)
    name, value = fields.get("name", ""), fields.get("value", "")
    if name not in CONTROLS:
        raise BadRequestError("There is no such control.")
    state = session_of(request).widgets
    state.values[name] = value
    state.changes += 1
    return web.Response(body=msgspec.json.encode({"set": name}), content_type="application/json")


WIDGETS = Site(
    name="widgets",
    title="Keeper's Console",
    summary="Every kind of control on one page: menus, tabs, sliders, lists, dialogs.",
    folder=_FOLDER,
    routes=(web.get("/widgets/", _console), web.post("/widgets/set", _set)),
)
