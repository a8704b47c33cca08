"""The pages that are served: the page of a task, the enlarged page, and the list of tasks.

*Enlarged.* The pages are 160 x 210 pixels, and their scripts compute with pixels. CSS `zoom` on
such a page would change the coordinates that its scripts see. A scaled frame around the page does
not, so `zoom` puts the page into a frame.
"""

import re
from collections.abc import Iterable
from html import escape
from urllib.parse import quote, urlencode

import msgspec

from webgym.miniwob.catalogue import MiniWobTask
from webgym.miniwob.episodes import MiniWobState
from webgym.miniwob.package import MiniWobError

WIDTH, HEIGHT = 160, 210
LARGEST_ZOOM = 8.0
LARGEST_SEED = 2**53
_CORE = re.compile(r'<script src="\.\./core/core\.js"></script>')


class EpisodeAddress(msgspec.Struct, frozen=True):
    """The parameters of an episode's page."""

    task: str
    seed: int = 0
    session: str | None = None
    zoom: float = 1.0
    mode: str | None = None

    def url(self, base: str = "") -> str:
        """The URL at a server's address, or else the path."""
        query: dict[str, object] = {"seed": self.seed}
        if self.session is not None:
            query["session"] = self.session
        if self.zoom != 1:
            query["zoom"] = f"{self.zoom:g}"
        if self.mode is not None:
            query["mode"] = self.mode
        return f"{base.rstrip('/')}/task/{quote(self.task)}?{urlencode(query)}"


def task_page(page: str, state: MiniWobState) -> str:
    """The package's page with a script that starts the session's episode."""
    script = (
        f'<script src="/_static/episode.js" data-seed="{state.seed}" '
        f'data-session="{escape(state.session)}" data-over="{str(state.done).lower()}"></script>\n'
        '<link rel="stylesheet" href="/_static/episode.css">'
    )
    wrapped, found = _CORE.subn(lambda core: f"{core[0]}\n{script}", page, count=1)
    if not found:
        raise MiniWobError(
            f"the page of {state.task} does not load core.js in the known way: use miniwob 1.1.0"
        )
    return wrapped


def enlarged_page(address: EpisodeAddress) -> str:
    """The task's page in an enlarged frame."""
    inner = msgspec.structs.replace(address, zoom=1.0).url()
    name, zoom = escape(address.task), f"{address.zoom:g}"
    return (
        f'<!DOCTYPE html><html><head><meta charset="utf-8"><title>{name}</title>'
        "<style>body { margin: 0; background: #555; } "
        f"div {{ width: {WIDTH * address.zoom:g}px; height: {HEIGHT * address.zoom:g}px; }} "
        f"iframe {{ display: block; border: 0; width: {WIDTH}px; height: {HEIGHT}px; "
        f"transform: scale({zoom}); transform-origin: 0 0; }}</style></head>"
        f'<body><div><iframe title="{name}" src="{escape(inner)}"></iframe></div></body></html>'
    )


def list_page(tasks: Iterable[MiniWobTask]) -> str:
    """The list of all tasks, for people."""
    rows = "".join(
        f'<tr><td><a href="{escape(EpisodeAddress(task.name).url())}">{escape(task.name)}</a></td>'
        f"<td>{escape(task.description)}</td><td>{escape(task.obstacle or '')}</td></tr>"
        for task in tasks
    )
    return (
        '<!DOCTYPE html><html><head><meta charset="utf-8"><title>MiniWoB++</title></head><body>'
        f"<h1>MiniWoB++</h1><table><tr><th>task</th><th>description</th>"
        f"<th>beyond our actions</th></tr>{rows}</table></body></html>"
    )
