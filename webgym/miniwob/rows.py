"""The tasks as rows of a task file.

The instruction of an episode is made in the page from its seed, and shown there. `task_name` says
so and describes the task. `read_instructions` opens each page once in a real browser, in a session
that is used for nothing else, and puts the instruction itself there.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Literal

import aiohttp
import msgspec
from yarl import URL

from rollgym.records.decoding import decode_json
from webgym.browser.contract.answers import Observe
from webgym.browser.contract.commands import VisitPage
from webgym.client.client import BrowserClient
from webgym.miniwob.episodes import EpisodeAddress, MiniWobState
from webgym.miniwob.package import Catalogue, MiniWobError, MiniWobTask, find_package
from webgym.served import is_session_name, new_session_name

DOMAIN = "MiniWoB++"


class MiniWobRow(msgspec.Struct, frozen=True):
    """A row of a task file. `verifier` says that the server itself checks the task."""

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
) -> list[MiniWobRow]:
    """An episode of each task for each seed, at the server `base_url`.

    The tasks are those named, or all that our actions can solve. Raises MiniWobError.
    """
    chosen = (catalogue or Catalogue(find_package())).choose(names)
    return [_row(base_url, task, seed, zoom) for seed in seeds for task in chosen]


def start_url(row: MiniWobRow, session: str) -> str:
    """The start page in a session, whose state is at `/_truth/SESSION`. Raises MiniWobError."""
    if not is_session_name(session):
        raise MiniWobError(f"{session!r} is not a session name: give 1 to 64 letters and digits")
    return str(URL(row.website).update_query(session=session))


def state_url(page_url: str) -> str | None:
    """The URL of the session state of a task's page; None for other pages."""
    url = URL(page_url)
    session = url.query.get("session", "")
    if not url.path.startswith("/task/") or not is_session_name(session):
        return None
    return str(url.origin() / "_truth" / session)


def _row(base_url: str, task: MiniWobTask, seed: int, zoom: float) -> MiniWobRow:
    about = f" What it is about: {task.description}" if task.description else ""
    return MiniWobRow(
        task_id=f"miniwob-{task.name}-{seed}",
        task_name=f"Follow the instruction at the top of the page.{about}",
        website=EpisodeAddress(task.name, seed, zoom=zoom).url(base_url),
        domain=DOMAIN,
        subdomain=task.name,
        difficulty=task.difficulty,
        evaluator_reference=("The instruction at the top of the page was carried out.",),
    )


TIMEOUT = 10.0
_OBSERVE = Observe(screenshot=None)


async def read_instructions(
    client: BrowserClient, rows: Sequence[MiniWobRow], parallel: int = 4
) -> list[MiniWobRow]:
    """The rows with their instructions as `task_name`.

    Raises MiniWobError if a page shows none, and the errors of the browser server.
    """
    waiting = list(enumerate(rows))
    with_instruction: dict[int, MiniWobRow] = {}

    async def work(http: aiohttp.ClientSession) -> None:
        async with client.session() as session:
            while waiting:
                index, row = waiting.pop()
                website = start_url(row, new_session_name())
                await session.step(VisitPage(website), _OBSERVE)
                instruction = (await _state(http, website)).instruction
                if not instruction:
                    raise MiniWobError(f"{row.website} shows no instruction")
                with_instruction[index] = msgspec.structs.replace(row, task_name=instruction)

    timeout = aiohttp.ClientTimeout(total=TIMEOUT)
    async with aiohttp.ClientSession(timeout=timeout) as http, asyncio.TaskGroup() as workers:
        for _ in range(min(parallel, len(rows))):
            workers.create_task(work(http))
    return [with_instruction[index] for index in range(len(rows))]


async def _state(http: aiohttp.ClientSession, website: str) -> MiniWobState:
    address = state_url(website)
    if address is None:
        raise MiniWobError(f"{website} is not the page of a task")
    async with http.get(address) as response:
        return decode_json(await response.read(), MiniWobState)
