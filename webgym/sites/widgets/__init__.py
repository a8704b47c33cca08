"""One page with every kind of control: menus, tabs, sliders, nested scroll areas, dialogs."""

from pathlib import Path

from aiohttp import web

from webgym.served import json_response
from webgym.sites.errors import InvalidInputError
from webgym.sites.sessions import session_of
from webgym.sites.site import Site, Template, page_response, read_form

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


WIDGETS = Site(
    name="widgets",
    title="Keeper's Console",
    summary="Every kind of control on one page: menus, tabs, sliders, lists, dialogs.",
    folder=_FOLDER,
)


@WIDGETS.get("")
async def _console(_: web.Request) -> web.Response:
    return page_response(_CONSOLE(harbours=[_HARBOUR(text=name) for name in _HARBOURS]))


@WIDGETS.post("set")
async def _set(request: web.Request) -> web.Response:
    fields = await read_form(request)
    name, value = fields.get("name", ""), fields.get("value", "")
    if name not in CONTROLS:
        raise InvalidInputError("There is no such control.")
    state = session_of(request).widgets
    state.values[name] = value
    state.changes += 1
    return json_response({"set": name})
