"""Recorded solutions of the test sites' tasks, played by our own browser client.

Each action that a solution's script decides on is written as the tool call of its mode and read
again before it becomes a command, so that everything is exercised that stands between a model's
reply and the browser.

`python -m tests.e2e.solving` plays all tasks in both modes and prints what came of each; `--save`
keeps the screenshots.
"""

import argparse
import asyncio
import json
import re
import select
import subprocess
import sys
import time
import urllib.request
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
from yarl import URL

from tests.e2e.browsing import server
from webgym.actions.space import Action, GiveAnswer, Viewport
from webgym.actions.tool_calls import read_action
from webgym.browser.contract.answers import Incident, Observe, StepAnswer
from webgym.browser.contract.commands import Command, InteractionMode, VisitPage
from webgym.client.client import BrowserClient, BrowserSession
from webgym.context.page_text import page_of
from webgym.context.page_view import AgentObservation, PageText
from webgym.policies.script import Script, ScriptError
from webgym.served import new_session_name
from webgym.sites.tasks.task import (
    SPLITS,
    SiteTask,
    SiteVerdict,
    Split,
    load_solutions,
    load_tasks,
    start_url,
    verify,
)

MODES: tuple[InteractionMode, ...] = ("set_of_marks", "coordinates")
AT_ONCE = 4
PATIENCE = 60.0
WHOLE_PAGE = 100_000
STEP_LIMITS: dict[Split, tuple[int, int, int]] = {"train": (10, 20, 30), "test": (30, 50, 70)}
"""Of easy, medium and hard tasks."""


def step_limit(task: SiteTask, split: Split) -> int:
    """How many actions an agent has for a task, as collections count by default."""
    easy, medium, hard = STEP_LIMITS[split]
    return easy if task.difficulty <= 3 else medium if task.difficulty <= 6 else hard


class Player:
    """Follows a script in a session, and remembers what was done there.

    Where there is a folder for it, the screenshots are kept.
    """

    def __init__(
        self, session: BrowserSession, mode: InteractionMode, album: Path | None = None
    ) -> None:
        self.taken: list[Action] = []
        self.incidents: list[Incident] = []
        self._session = session
        self._mode = mode
        self._album = album
        self._observe = Observe(mode, elements=True)

    async def open(self, url: str) -> StepAnswer:
        return await self._step(VisitPage(url))

    async def play(self, script: Script, answer: StepAnswer) -> str:
        """From the answer to `open` on; what the script answers. Raises ScriptError."""
        while True:
            text = await self._session.get_webpage_text(WHOLE_PAGE) if script.reads else ""
            page = page_as_text(answer, text, self._mode)
            decided = script.decide(page, is_busy=not answer.settled or answer.page.loading)
            if decided is None:
                continue
            action = as_a_model_says_it(decided, self._mode)
            self.taken.append(action)
            if isinstance(action, GiveAnswer):
                return action.text
            viewport = Viewport(answer.page.width, answer.page.height)
            answer = await self._step(action.to_command(viewport))

    async def _step(self, command: Command | None) -> StepAnswer:
        answer = await self._session.step(command, self._observe)
        if answer.error is not None:
            raise ScriptError(f"{command} at {answer.page.url}: {answer.error.message}")
        self.incidents += answer.incidents
        if answer.screenshot is not None and self._album is not None:
            self._album.mkdir(parents=True, exist_ok=True)
            (self._album / f"{len(self.taken):02}.png").write_bytes(answer.screenshot.data)
        return answer


def page_as_text(answer: StepAnswer, text: str, mode: InteractionMode) -> PageText:
    """What a step showed, as scripts see it; `text` is that of the whole page, where asked for."""
    current = AgentObservation(page=answer.page, elements=answer.elements or ())
    return msgspec.structs.replace(page_of(current, mode, WHOLE_PAGE), text=text)


def as_a_model_says_it(action: Action, mode: InteractionMode) -> Action:
    """The action that is read from the tool call that is written for this one."""
    written = action.write(mode).text
    call = json.loads(written.removeprefix("<tool_call>").removesuffix("</tool_call>"))
    read = read_action(mode, call["name"], call["arguments"])
    assert read == action, f"{written} was read as {read}"
    return read


class Played(msgspec.Struct, frozen=True):
    """What came of a task: the verdict before anything was done, and the one at the end."""

    before: SiteVerdict
    after: SiteVerdict
    taken: list[Action]
    incidents: list[Incident]
    seconds: float


async def play(
    client: BrowserClient, task: SiteTask, mode: InteractionMode, album: Path | None = None
) -> Played:
    """Play the solution of a task of the sites. Raises ScriptError."""
    name, script = new_session_name(), Script(load_solutions()[task.task_id], mode)
    async with client.session(wait_seconds=10 * PATIENCE) as session:
        started = time.monotonic()
        player = Player(session, mode, album)
        first = await player.open(start_url(task, name))
        before = verify(task, None, await truth_of(task, name))
        try:
            answer = await player.play(script, first)
        except ScriptError as error:
            error.add_note("after " + "; ".join(map(str, player.taken)))
            raise
        after = verify(task, answer, await truth_of(task, name))
    seconds = time.monotonic() - started
    return Played(before, after, player.taken, player.incidents, seconds)


async def truth_of(task: SiteTask, name: str) -> dict[str, object]:
    def ask() -> dict[str, object]:
        url = str(URL(task.website).join(URL(f"/_truth/{name}")))
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
            truth: dict[str, object] = json.load(answer)
            return truth

    return await asyncio.to_thread(ask)


Key = tuple[str, InteractionMode]
Results = dict[Key, Played | Exception]


async def play_all(
    browser_url: str, games: Sequence[tuple[SiteTask, InteractionMode]], albums: Path | None = None
) -> Results:
    """Several at a time, each in a session of its own."""
    results: Results = {}
    waiting = deque(games)

    async def play_next(client: BrowserClient) -> None:
        while waiting:
            task, mode = waiting.popleft()
            album = None if albums is None else albums / mode / task.task_id
            try:
                results[task.task_id, mode] = await play(client, task, mode, album)
            except Exception as error:  # noqa: BLE001 - shown by the task's own test
                results[task.task_id, mode] = error

    async with BrowserClient(browser_url) as client, asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(play_next(client))
    return results


@contextmanager
def sites(*arguments: str) -> "Iterator[tuple[subprocess.Popen[str], str]]":
    """The sites' command in a process of its own, and the URL that it printed."""
    process = subprocess.Popen(
        [sys.executable, "-m", "webgym.sites", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            assert process.stdout
            ready, _, _ = select.select([process.stdout], [], [], PATIENCE)
            line = process.stdout.readline() if ready else ""
            found = re.search(r"http://\S+", line)
            assert found, f"no URL in {line!r}"
            yield process, found[0].rstrip("/")
        finally:
            process.kill()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.solving", description=__doc__)
    parser.add_argument("tasks", nargs="*", help="ids, or beginnings of them (default: all)")
    parser.add_argument("--mode", choices=MODES, action="append")
    parser.add_argument("--save", type=Path, metavar="FOLDER", help="for the screenshots")
    given = parser.parse_args()
    started = time.monotonic()
    with sites("--port", "0") as (_, url), server("--capacity", str(AT_ONCE)) as browsers:
        chosen = [
            (task, split)
            for split in SPLITS
            for task in load_tasks(split, url)
            if not given.tasks or task.task_id.startswith(tuple(given.tasks))
        ]
        games = [(task, mode) for mode in given.mode or MODES for task, _ in chosen]
        results = asyncio.run(play_all(browsers.url, games, given.save))
    splits = {task.task_id: (task, split) for task, split in chosen}
    for (task_id, mode), played in sorted(results.items()):
        task, split = splits[task_id]
        if isinstance(played, Exception):
            print(f"{task_id:24}{mode:14}lost: {played} {getattr(played, '__notes__', '')}")
            continue
        steps, limit = len(played.taken), step_limit(task, split)
        facts = "; ".join(fact.reason for fact in played.after.facts if not fact.passed)
        print(
            f"{task_id:24}{mode:14}{split:7}difficulty {task.difficulty}  "
            f"reward {played.before.reward} -> {played.after.reward}  "
            f"{steps:2} of {limit} steps {'TOO MANY ' if steps > limit else ''}"
            f"{played.seconds:5.1f} s {facts}"
        )
    print(f"{len(results)} played in {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
