"""The naive way to collect: synchronous steps, as loops over a batch of environments make them.

Sixteen episodes (or however many sessions there are) begin together. All of them ask the model;
when the slowest has its reply, all act in their browsers; when the slowest has its page, all ask
the model again. Who has ended waits for the others, and the next sixteen begin when the last of the
batch has ended.

It is made of the very parts that the asynchronous way is made of, so that nothing differs but the
waiting: episodes with their prompts, browser steps, screenshots and verdicts are those of
`webgym.episode`, with a barrier behind every reply of the model and every page of a browser.
Within a batch everything that can happen at once does. Nothing is retried and no journal is kept,
which both would only cost it time; the trajectories of a batch are written when it has ended.
"""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rollgym.engine import WorkItem
from rollgym.records import Outcome, RolloutKey, Task, derive_seed
from rollgym.store import BlobStore
from webgym.browser.contract.answers import Lease, Observe, StepAnswer
from webgym.browser.contract.commands import Command
from webgym.client.client import BrowserClient
from webgym.client.sessions import SessionSource
from webgym.context.page_view import AgentObservation, Round
from webgym.context.settings import ContextSettings
from webgym.episode.interfaces import Agent, Decision, EpisodeJudge, WebSession
from webgym.episode.unjudged import UnjudgedEpisodes
from webgym.episode.worker import EpisodeWorker
from webgym.rollout.environment_settings import EnvironmentSettings
from webgym.tasks.task import WebTask

EPISODE_SECONDS = 1_200.0


async def collect_in_lockstep(
    tasks: Sequence[Task],
    agent: Agent,
    browsers_url: str,
    *,
    sites_url: str,
    sessions: int,
    folder: Path,
    seed: int,
) -> list[Outcome]:
    """What became of the tasks, `sessions` of them at a time."""
    outcomes: list[Outcome] = []
    async with BrowserClient(browsers_url) as client, agent:
        for first in range(0, len(tasks), sessions):
            batch = tasks[first : first + sessions]
            barrier = Barrier(len(batch))
            worker = EpisodeWorker(
                agent=AgentInLockstep(agent, barrier),
                browsers=BrowsersInLockstep(client, barrier),
                sessions=sessions,
                settings=EnvironmentSettings(sites_url=sites_url).episode,
                screenshots=BlobStore(folder / "screenshots"),
                monitor=Nobody(),
                unjudged=UnjudgedEpisodes(folder),
            )
            ended = await asyncio.gather(*(_play(worker, task, barrier, seed) for task in batch))
            with (folder / "trajectories.jsonl").open("ab") as file:
                file.writelines(bytes(outcome.result) + b"\n" for outcome in ended)
            outcomes += ended
    return outcomes


async def _play(worker: EpisodeWorker, task: Task, barrier: "Barrier", seed: int) -> Outcome:
    item = WorkItem(task, 0, derive_seed(seed, "rollout", task.index, 0))
    try:
        return await worker(item, 1, asyncio.get_running_loop().time() + EPISODE_SECONDS)
    finally:
        barrier.leave()


class Barrier:
    """Lets nobody on before all have come who have not left."""

    def __init__(self, parties: int) -> None:
        self._parties = parties
        self._come = 0
        self._open = asyncio.Event()

    async def wait(self) -> None:
        self._come += 1
        opened = self._open
        self._open_if_all_have_come()
        await opened.wait()

    def leave(self) -> None:
        self._parties -= 1
        self._open_if_all_have_come()

    def _open_if_all_have_come(self) -> None:
        if self._come >= self._parties:
            self._open.set()
            self._come, self._open = 0, asyncio.Event()


class AgentInLockstep:
    """An agent whose decisions are known when all of the batch are made."""

    def __init__(self, agent: Agent, barrier: Barrier) -> None:
        self._agent = agent
        self._barrier = barrier

    async def __aenter__(self) -> object:
        return self

    async def __aexit__(self, *error: object) -> None:
        """The agent serves further batches."""

    @property
    def identity(self) -> Mapping[str, object]:
        return self._agent.identity

    @property
    def context(self) -> ContextSettings:
        return self._agent.context

    @property
    def observe(self) -> Observe:
        return self._agent.observe

    @property
    def evaluator(self) -> EpisodeJudge:
        return self._agent.evaluator

    async def decide(
        self,
        task: WebTask,
        past: Sequence[Round],
        current: AgentObservation,
        *,
        conversation: str,
        seed: int,
    ) -> Decision:
        decision = await self._agent.decide(
            task, past, current, conversation=conversation, seed=seed
        )
        await self._barrier.wait()
        return decision


class BrowsersInLockstep:
    """SessionSource whose pages are known when all of the batch are there."""

    def __init__(self, browsers: SessionSource, barrier: Barrier) -> None:
        self._browsers = browsers
        self._barrier = barrier

    async def get(self, lifetime_mins: float = 60, wait_seconds: float = 60) -> WebSession:
        session = await self._browsers.get(lifetime_mins, wait_seconds)
        return SessionInLockstep(session, self._barrier)

    async def release(self, session: Any) -> None:
        await self._browsers.release(session.session)


class SessionInLockstep:
    """A session of BrowsersInLockstep."""

    def __init__(self, session: WebSession, barrier: Barrier) -> None:
        self.session = session
        self._barrier = barrier

    @property
    def lease(self) -> Lease:
        return self.session.lease

    async def step(
        self,
        command: Command | None = None,
        observe: Observe | None = None,
        *,
        within: float | None = None,
    ) -> StepAnswer:
        answer = await self.session.step(command, observe, within=within)
        await self._barrier.wait()
        return answer


class Nobody:
    """Watches nothing."""

    def waiting(self, key: RolloutKey) -> None:
        pass

    def running(self, key: RolloutKey, phase: str, step: int) -> None:
        pass
