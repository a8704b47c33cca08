"""The scripted policy solves tasks of the test sites over its HTTP interface.

Chats are built of what the browser shows and sent to the policy's own command, and its replies are
parsed into actions like those of a model.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

import aiohttp
import msgspec
import pytest

from rollgym.records import Row
from tests.e2e.browsing import server
from tests.e2e.solving import AT_ONCE, MODES, PATIENCE, sites, step_limit, truth_of
from tests.integration.webgym.policies.commanding import serving
from webgym.actions.space import Action, GiveAnswer, Viewport
from webgym.browser.chromium.executable import NoBrowserError, find_browser
from webgym.browser.contract.answers import Observe, StepAnswer
from webgym.browser.contract.commands import InteractionMode, VisitPage
from webgym.client.client import BrowserClient, BrowserSession
from webgym.context.conversation import build_chat
from webgym.context.page_view import AgentObservation, Round
from webgym.context.parsers import ParsedReply, parse_reply
from webgym.context.settings import ContextSettings
from webgym.policies import MODEL_NAME
from webgym.served import new_session_name
from webgym.sites.tasks.task import (
    SPLITS,
    SiteTask,
    SiteVerdict,
    Split,
    load_tasks,
    start_url,
    verify,
)
from webgym.tasks.task import WebTask
from webgym.trajectory.records import ActionRecord, Observation, ResponseRecord, Step

SOLVED = ("sites-shop-05", "sites-broken-02")
BLOCKED = "sites-captcha-03"

pytestmark = pytest.mark.timeout(200)


class Episode:
    """One task with one policy: what it decided, and what that was worth."""

    def __init__(self, task: SiteTask, split: Split, mode: InteractionMode) -> None:
        self.task = task
        self.key = mode, task.task_id
        self.actions: list[Action] = []
        self._limit = step_limit(task, split)
        self._settings = ContextSettings(interaction_mode=mode, observation="text")
        self._observe = Observe(mode, screenshot=None, elements=True, tree=True)
        self._name = new_session_name()
        row = {"task_name": task.task_name, "website": task.website}
        self._asked = WebTask.of(Row(msgspec.json.encode(row)), task.task_id)
        self._past: list[Round] = []

    async def run(
        self, browser: BrowserClient, http: aiohttp.ClientSession, url: str
    ) -> SiteVerdict:
        async with browser.session(wait_seconds=PATIENCE) as session:
            answer = await self._play(session, http, url)
            return verify(self.task, answer, await truth_of(self.task, self._name))

    async def _play(
        self, session: BrowserSession, http: aiohttp.ClientSession, url: str
    ) -> str | None:
        seen = await session.step(VisitPage(start_url(self.task, self._name)), self._observe)
        while len(self.actions) < self._limit:
            action = await self._decide(seen, http, url)
            self.actions.append(action)
            if isinstance(action, GiveAnswer):
                return action.text
            viewport = Viewport(seen.page.width, seen.page.height)
            seen = await session.step(action.to_command(viewport), self._observe)
        return None

    async def _decide(self, seen: StepAnswer, http: aiohttp.ClientSession, url: str) -> Action:
        current = AgentObservation(page=seen.page, elements=seen.elements or (), tree=seen.tree)
        chat = build_chat(self._settings, self._asked, self._past, current)
        body = {"model": MODEL_NAME, "messages": chat.messages, "user": self._name}
        async with http.post(f"{url}/v1/chat/completions", json=body) as answer:
            assert answer.status == 200, await answer.text()
            said: str = (await answer.json())["choices"][0]["message"]["content"]
        reply = parse_reply(said, self._settings)
        assert (reply.failure, reply.tolerances) == (None, ())
        assert reply.action is not None
        self._past.append(Round(current, _step(seen, said, reply)))
        return reply.action


def _step(seen: StepAnswer, said: str, reply: ParsedReply) -> Step:
    assert reply.action is not None
    done = ActionRecord(
        key=reply.action.key, arguments=reply.action.arguments, text=str(reply.action)
    )
    response = ResponseRecord(raw_response=said, fields=reply.fields)
    return Step(observation=Observation(page=seen.page), response=response, action=done)


Key = tuple[InteractionMode, str]
Played = dict[Key, tuple[SiteVerdict, list[Action]]]


async def play_all(browser_url: str, policy_url: str, episodes: Sequence[Episode]) -> Played:
    """Several at a time."""
    played: Played = {}
    waiting = list(episodes)

    async def play_next(browser: BrowserClient, http: aiohttp.ClientSession) -> None:
        while waiting:
            episode = waiting.pop()
            verdict = await episode.run(browser, http, policy_url)
            played[episode.key] = verdict, episode.actions

    async with (
        BrowserClient(browser_url) as browser,
        aiohttp.ClientSession() as http,
        asyncio.TaskGroup() as group,
    ):
        for _ in range(AT_ONCE):
            group.create_task(play_next(browser, http))
    return played


@pytest.fixture(scope="module")
def played() -> Iterator[Played]:
    try:
        find_browser()
    except NoBrowserError as error:
        pytest.skip(str(error))
    with ExitStack() as stack:
        _, sites_url = stack.enter_context(sites("--port", "0"))
        browsers = stack.enter_context(server("--capacity", str(AT_ONCE)))
        _, policy_url = stack.enter_context(serving("serve", "--port", "0"))
        tasks = {
            task.task_id: (task, split) for split in SPLITS for task in load_tasks(split, sites_url)
        }
        episodes = [
            Episode(*tasks[task_id], mode) for mode in MODES for task_id in (*SOLVED, BLOCKED)
        ]
        yield asyncio.run(play_all(browsers.url, policy_url, episodes))


def test_tasks_are_solved_within_their_steps(played: Played) -> None:
    for (mode, task_id), (verdict, actions) in played.items():
        if task_id in SOLVED:
            reasons = [fact.reason for fact in verdict.facts if not fact.passed]
            assert reasons == [], (mode, task_id, [str(action) for action in actions])
            assert verdict.reward == 1


def test_a_blocked_page_ends_the_task_with_an_answer(played: Played) -> None:
    for mode in MODES:
        verdict, actions = played[mode, BLOCKED]
        assert (verdict.reward, verdict.blocked) == (0, True)
        assert isinstance(actions[-1], GiveAnswer)
        assert "blocked" in actions[-1].text
