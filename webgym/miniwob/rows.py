"""The tasks as rows of a task file, for web agents.

The instruction of an episode is made in the page from its seed, and shown there. `task_name` says
so, together with what the task is about; `read_instructions` puts the instruction itself there.
"""

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec
from yarl import URL

from webgym.miniwob.catalogue import Catalogue, MiniWobTask
from webgym.miniwob.episodes import is_session_name
from webgym.miniwob.errors import MiniWobError
from webgym.miniwob.package import find_package
from webgym.miniwob.page import Opening

DOMAIN = "MiniWoB++"


class TaskRow(msgspec.Struct, frozen=True):
    """A line of a task file. `verifier` tells whoever runs it that the server knows the truth."""

    task_id: str
    task_name: str
    website: str
    domain: str
    subdomain: str
    difficulty: int
    evaluator_reference: tuple[str, ...]
    definite_answer: str | None = None
    verifier: Literal["miniwob"] = "miniwob"


def load_tasks(
    base_url: str,
    seeds: Iterable[int] = (0,),
    names: Sequence[str] | None = None,
    *,
    zoom: float = 1.0,
    catalogue: Catalogue | None = None,
) -> list[TaskRow]:
    """An episode of each task for each seed, at the server `base_url`.

    The tasks are those named, or all that our actions can solve. Raises MiniWobError.
    """
    chosen = (catalogue or Catalogue(find_package())).choose(names)
    return [_row(base_url, task, seed, zoom) for seed in seeds for task in chosen]


def start_url(row: TaskRow, session: str) -> str:
    """Where to begin, so that `/_truth/SESSION` tells what was done. Raises MiniWobError."""
    if not is_session_name(session):
        raise MiniWobError(f"{session!r} is no session: give 1 to 64 letters and digits")
    return str(URL(row.website).update_query(session=session))


def truth_url(page_url: str) -> str | None:
    """Where to ask what happened in the session of a task's page; None for other pages."""
    url = URL(page_url)
    session = url.query.get("session", "")
    if not url.path.startswith("/task/") or not is_session_name(session):
        return None
    return str(url.origin() / "_truth" / session)


def _row(base_url: str, task: MiniWobTask, seed: int, zoom: float) -> TaskRow:
    about = f" What it is about: {task.description}" if task.description else ""
    return TaskRow(
        task_id=f"miniwob-{task.name}-{seed}",
        task_name=f"Follow the instruction at the top of the page.{about}",
        website=Opening(task.name, seed, zoom=zoom).url(base_url),
        domain=DOMAIN,
        subdomain=task.name,
        difficulty=task.difficulty,
        evaluator_reference=("The instruction at the top of the page was carried out.",),
    )
