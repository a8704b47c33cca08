"""What is made of MiniWoB++'s pages: the page of a task, the same enlarged, and the list of all.

*Enlarged.* The pages are 160 x 210 pixels, and their scripts compute with pixels. CSS `zoom` on
such a page would give its scripts other coordinates than they draw with. A scaled frame around the
page does not: inside, a click is where it would be otherwise. So `zoom` puts the page into a frame.
"""

import re
from collections.abc import Iterable
from html import escape
from urllib.parse import quote, urlencode

import msgspec

from webgym.miniwob.catalogue import MiniWobTask
from webgym.miniwob.episodes import Truth
from webgym.miniwob.errors import MiniWobError

WIDTH, HEIGHT = 160, 210
LARGEST_ZOOM = 8.0
LARGEST_SEED = 2**53
_CORE = re.compile(r'<script src="\.\./core/core\.js"></script>')


class Opening(msgspec.Struct, frozen=True):
    """How a task's page is opened."""

    task: str
    seed: int = 0
    session: str | None = None
    zoom: float = 1.0
    mode: str | None = None

    def url(self, base: str = "") -> str:
        """Below the server's address, or as a path."""
        query: dict[str, object] = {"seed": self.seed}
        if self.session is not None:
            query["session"] = self.session
        if self.zoom != 1:
            query["zoom"] = f"{self.zoom:g}"
        if self.mode is not None:
            query["mode"] = self.mode
        return f"{base.rstrip('/')}/task/{quote(self.task)}?{urlencode(query)}"


def task_page(page: str, truth: Truth) -> str:
    """The package's page, which then plays the session's episode by itself."""
    script = (
        f'<script src="/_static/episode.js" data-seed="{truth.seed}" '
        f'data-session="{escape(truth.session)}" data-over="{str(truth.done).lower()}"></script>\n'
        '<link rel="stylesheet" href="/_static/episode.css">'
    )
    wrapped, found = _CORE.subn(lambda core: f"{core[0]}\n{script}", page, count=1)
    if not found:
        raise MiniWobError(f"the page of {truth.task} does not load core.js as it is known to")
    return wrapped


def enlarged_page(opening: Opening) -> str:
    """The task's page in a frame that is so many times larger."""
    inner = msgspec.structs.replace(opening, zoom=1.0).url()
    name, zoom = escape(opening.task), f"{opening.zoom:g}"
    return (
        f'<!DOCTYPE html><html><head><meta charset="utf-8"><title>{name}</title>'
        "<style>body { margin: 0; background: #555; } "
        f"div {{ width: {WIDTH * opening.zoom:g}px; height: {HEIGHT * opening.zoom:g}px; }} "
        f"iframe {{ display: block; border: 0; width: {WIDTH}px; height: {HEIGHT}px; "
        f"transform: scale({zoom}); transform-origin: 0 0; }}</style></head>"
        f'<body><div><iframe title="{name}" src="{escape(inner)}"></iframe></div></body></html>'
    )


def list_page(tasks: Iterable[MiniWobTask]) -> str:
    """All tasks, to be opened by a person."""
    rows = "".join(
        f'<tr><td><a href="{escape(Opening(task.name).url())}">{escape(task.name)}</a></td>'
        f"<td>{escape(task.description)}</td><td>{escape(task.obstacle or '')}</td></tr>"
        for task in tasks
    )
    return (
        '<!DOCTYPE html><html><head><meta charset="utf-8"><title>MiniWoB++</title></head><body>'
        f"<h1>MiniWoB++</h1><table><tr><th>task</th><th>what it is about</th>"
        f"<th>beyond our actions</th></tr>{rows}</table></body></html>"
    )
