"""Episodes: the state of each session, and the pages that are served for it.

*Sessions.* The URL names the session, or the server makes a name. A session has one task and one
seed, and its first end counts: a page that is opened again afterwards shows that the task has
ended. So an agent that failed cannot try again; only `reset` allows another try. The number of
sessions is bounded.

*Enlarged pages.* The pages are 160 x 210 pixels, and their scripts compute with pixels. CSS `zoom`
on such a page would change the coordinates that its scripts see. A scaled frame around the page
does not, so `zoom` puts the page into a frame.
"""

import re
from collections import OrderedDict
from collections.abc import Iterable
from html import escape
from typing import Annotated
from urllib.parse import quote, urlencode

import msgspec

from webgym.miniwob.package import MiniWobError, MiniWobTask

MOST_EPISODES = 4_096
LONGEST_INSTRUCTION = 4_000
LONGEST_REASON = 500


class OtherTaskError(Exception):
    """The session belongs to another task, or to another seed."""


class MiniWobState(msgspec.Struct, frozen=True):
    """What happened in a session, as its page reported it.

    `reward` is 1 if the task was solved, else 0, also before it has ended.
    """

    session: str
    task: str
    seed: int
    instruction: str | None = None
    done: bool = False
    raw_reward: float = 0.0
    reward: int = 0
    reason: str | None = None
    starts: int = 0


class PageEvent(msgspec.Struct, frozen=True, tag_field="event"):
    """An event that a page reports."""


class EpisodeStarted(PageEvent, frozen=True, tag="started"):
    instruction: str


class EpisodeEnded(PageEvent, frozen=True, tag="ended"):
    raw_reward: float | None = None
    reason: object = None


class Episodes:
    """Episodes by session name; the least recently used one is removed first."""

    def __init__(self, limit: int = MOST_EPISODES) -> None:
        self._limit = limit
        self._episodes: OrderedDict[str, tuple[MiniWobTask, MiniWobState]] = OrderedDict()

    def open(self, session: str, task: MiniWobTask, seed: int) -> MiniWobState:
        """The session's episode, made if it does not exist. Raises OtherTaskError."""
        known = self._episodes.get(session)
        if known is None:
            return self._keep(task, MiniWobState(session, task.name, seed))
        state = known[1]
        if (state.task, state.seed) != (task.name, seed):
            raise OtherTaskError(
                f"session {session} belongs to the task {state.task} with seed {state.seed}: "
                "open this page in another session"
            )
        return self._keep(task, state)

    def apply(self, session: str, report: EpisodeStarted | EpisodeEnded) -> bool:
        """Apply an event of the page; False if the session is unknown."""
        known = self._episodes.get(session)
        if known is None:
            return False
        task, state = known
        if not state.done:
            self._keep(task, _after(state, task, report))
        return True

    def find(self, session: str) -> MiniWobState | None:
        known = self._episodes.get(session)
        return known[1] if known else None

    def reset(self, session: str) -> bool:
        """Remove a session; False if it is unknown."""
        return self._episodes.pop(session, None) is not None

    def _keep(self, task: MiniWobTask, state: MiniWobState) -> MiniWobState:
        self._episodes[state.session] = (task, state)
        self._episodes.move_to_end(state.session)
        while len(self._episodes) > self._limit:
            self._episodes.popitem(last=False)
        return state


def _after(
    state: MiniWobState, task: MiniWobTask, report: EpisodeStarted | EpisodeEnded
) -> MiniWobState:
    replace = msgspec.structs.replace
    if isinstance(report, EpisodeStarted):
        instruction = report.instruction[:LONGEST_INSTRUCTION]
        return replace(state, instruction=instruction, starts=state.starts + 1)
    raw_reward = report.raw_reward or 0.0
    reason = None if report.reason is None else str(report.reason)[:LONGEST_REASON]
    return replace(
        state, done=True, raw_reward=raw_reward, reward=task.reward(raw_reward), reason=reason
    )


WIDTH, HEIGHT = 160, 210
LARGEST_ZOOM = 8.0
LARGEST_SEED = 2**53
_CORE = re.compile(r'<script src="\.\./core/core\.js"></script>')


class EpisodeAddress(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The parameters of an episode's page."""

    task: str
    seed: Annotated[int, msgspec.Meta(ge=0, le=LARGEST_SEED)] = 0
    session: str | None = None
    zoom: Annotated[float, msgspec.Meta(ge=0.1, le=LARGEST_ZOOM)] = 1.0
    mode: Annotated[str, msgspec.Meta(pattern="^[a-z]{1,20}$")] | None = None

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
