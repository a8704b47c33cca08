"""One attempt at one task: open the start page, then observe, decide and act, step by step.

A step of the trajectory is what was seen, what the model said to that, and the action it meant. The
action is carried out and the next page observed in one round trip to the browser. A reply that is
no action, and an action that the page does not let happen, are told to the model with the next
page; both are steps like others.

An episode ends with an answer, after its steps, before a wall, or when the agent is stuck. What it
is worth is for the judge to say. What breaks raises a RolloutError; the log has the steps so far.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from rollgym.records import EnvironmentSessionError, RolloutKey, TaskError
from rollgym.store import BlobStore
from webgym.browser.contract.answers import Problem, StepAnswer
from webgym.browser.contract.commands import Command, VisitPage
from webgym.browser.contract.errors import NavigationRefusedError
from webgym.context.sight import Sight
from webgym.environment.actions import Action, Answer
from webgym.episode.aim import record_of, unparsed, viewport_of
from webgym.episode.browsers import WebSession
from webgym.episode.going_back import GoingBack
from webgym.episode.log import EpisodeLog
from webgym.episode.parts import Agent, Watcher
from webgym.episode.settings import EpisodeSettings
from webgym.tasks import WebTask
from webgym.trajectory import BLOCKED, INVALID_URL, ActionRecord, Image


class Episode:
    """An attempt of `agent` at `task`, which begins at `start_url`."""

    def __init__(
        self,
        *,
        key: RolloutKey,
        task: WebTask,
        start_url: str,
        conversation: str,
        seed: int,
        agent: Agent,
        settings: EpisodeSettings,
        screenshots: BlobStore,
        watcher: Watcher,
        phases: dict[str, float],
    ) -> None:
        """`phases` is where the seconds of each phase are added up."""
        self.log = EpisodeLog(agent.context.window)
        self.ending = "failed"
        self.phases = phases
        self._key = key
        self._task = task
        self._start_url = start_url
        self._conversation = conversation
        self._seed = seed
        self._agent = agent
        self._settings = settings
        self._screenshots = screenshots
        self._watcher = watcher
        self._going_back = GoingBack(settings.split)
        self._timings: dict[str, float] = {}

    async def run(self, session: WebSession) -> None:
        """Play it to its `ending`. Raises RolloutError where something breaks."""
        self._step_number = 1
        answer = await self._open(session)
        self._going_back.begin(answer.page.url)
        feedback: str | None = None
        for number in range(1, self._settings.steps_for(self._task) + 1):
            self._step_number, self._timings = number, {}
            sight = await self._see(answer, feedback)
            if await self._is_blocked(sight):
                record = ActionRecord(key=BLOCKED, text="stopped before a wall")
                self.log.act(record, self._timings)
                self.ending = "blocked"
                return
            action, feedback = await self._decide(sight)
            if isinstance(action, Answer):
                self.ending = "answer"
                return
            if action is None:
                continue
            if self._going_back.stuck(action, sight.page.url):
                self.ending = "goback"
                return
            command = self._going_back.command(action.to_command(viewport_of(sight)))
            answer = await self._carry_out(session, command, "execute")
            feedback = self._came_of(action, sight, answer.error)
        self.ending = "max_steps"

    async def _open(self, session: WebSession) -> StepAnswer:
        answer = await self._carry_out(session, VisitPage(self._start_url), "navigate")
        problem = answer.error
        if problem is None:
            return answer
        await self._see(answer, None)
        record = ActionRecord(key=INVALID_URL, text=f"open {self._start_url}", problem=problem)
        self.log.act(record, self._timings)
        self.ending = INVALID_URL
        if problem.type == NavigationRefusedError.type:
            raise TaskError(
                f"the browser server does not let sessions open {self._start_url}: "
                f"{problem.message}"
            )
        raise EnvironmentSessionError(
            f"the start page {self._start_url} cannot be opened: {problem.message}"
        )

    async def _carry_out(
        self, session: WebSession, command: Command | None, phase: str
    ) -> StepAnswer:
        with self._phase(phase):
            return await session.step(
                command, self._agent.observe, within=self._settings.operation_timeout
            )

    async def _see(self, answer: StepAnswer, feedback: str | None) -> Sight:
        """Keep what is seen: the picture in a file of its own before anything refers to it."""
        picture, image, name = answer.screenshot, None, ""
        if picture is not None:
            with self._phase("screenshot"):
                ending = "." + picture.media_type.removeprefix("image/")
                name = (await self._screenshots.put(picture.data, ending)).name
            image = Image(name, picture.media_type, answer.page.width, answer.page.height)
        sight = Sight(
            page=answer.page,
            picture=picture,
            blob=name,
            elements=answer.elements or (),
            tree=answer.tree,
            feedback=feedback,
        )
        self.log.see(sight, answer, image)
        return sight

    async def _is_blocked(self, sight: Sight) -> bool:
        if not self._settings.watch_for_blocking or sight.picture is None:
            return False
        rounds = self.log.rounds
        if rounds and rounds[-1].sight.blob == sight.blob:
            return False
        with self._phase("reward"):
            return await self._agent.evaluator.screenshot_is_blocked(sight.picture)

    async def _decide(self, sight: Sight) -> tuple[Action | None, str | None]:
        """The action, and what to tell the model where there is none."""
        with self._phase("model"):
            decision = await self._agent.decide(
                self._task,
                self.log.rounds,
                sight,
                conversation=self._conversation,
                seed=self._seed,
            )
        self.log.hear(decision.response)
        action = decision.action
        if action is None:
            reason = decision.response.parse_failure or "the reply is no action"
            self.log.act(unparsed(reason), self._timings)
            return None, reason
        self.log.act(record_of(action, sight), self._timings)
        return action, None

    def _came_of(self, action: Action, sight: Sight, problem: Problem | None) -> str | None:
        if problem is None:
            return None
        record = record_of(action, sight)
        self.log.amend(msgspec.structs.replace(record, problem=problem))
        return f"`{action}` was not carried out: {problem.message}"

    @contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        """Tell who watches, and count the seconds, of the step and of the episode."""
        self._watcher.running(self._key, name, self._step_number)
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            yield
        finally:
            seconds = loop.time() - began
            self._timings[name] = self._timings.get(name, 0.0) + seconds
            self.phases[name] = self.phases.get(name, 0.0) + seconds
