"""Two simpler ways to collect, made of the very parts that the asynchronous way is made of.

Nothing differs but the waiting: episodes with their prompts, browser steps, screenshots and
verdicts are those of `webgym.episode`. Nothing is retried and no journal is kept, which both would
only cost them time; the trajectories are written when their episodes have ended.

*Lockstep* is synchronous steps, as loops over a batch of environments make them. The episodes of a
batch begin together. All of them ask the model; when the slowest has its reply, all act in their
browsers; when the slowest has its page, all ask the model again. Who has ended gets its verdict and
waits for the others, and the next batch begins when the last has its verdict. Within a batch
everything that can happen at once does.

*Refill* is a plain asynchronous loop with slots: an episode opens its session, plays, closes the
session and gets its verdict, and then the next begins in its slot.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from rollgym.engine import WorkItem
from rollgym.records import Outcome, RolloutKey, Task, derive_seed
from rollgym.store import BlobStore
from webgym.client.client import BrowserClient
from webgym.client.sessions import SessionSource
from webgym.episode.interfaces import Agent
from webgym.episode.judging import UnjudgedEpisodes
from webgym.episode.worker import EpisodeWorker
from webgym.rollout.environment_settings import EnvironmentSettings

EPISODE_SECONDS = 1_200.0


class BaselineCollector:
    """Collects tasks in real browser sessions, at most `sessions` at a time."""

    def __init__(
        self,
        agent: Agent,
        browsers_url: str,
        *,
        sites_url: str,
        sessions: int,
        folder: Path,
        seed: int,
    ) -> None:
        self._agent = agent
        self._client = BrowserClient(browsers_url)
        self._sites_url = sites_url
        self._sessions = sessions
        self._folder = folder
        self._seed = seed

    async def in_lockstep(self, tasks: Sequence[Task]) -> list[Outcome]:
        outcomes: list[Outcome] = []
        async with self._client, self._agent:
            for first in range(0, len(tasks), self._sessions):
                batch = tasks[first : first + self._sessions]
                barrier = Barrier(len(batch))
                worker = self._worker(
                    InLockstep(self._agent, "decide", barrier),
                    BrowsersInLockstep(self._client, barrier),
                )
                ended = await asyncio.gather(*(self._play(worker, task) for task in batch))
                self._write(ended)
                outcomes += ended
        return outcomes

    async def with_refill(self, tasks: Sequence[Task]) -> list[Outcome]:
        outcomes: list[Outcome] = []
        left = iter(tasks)
        async with self._client, self._agent:
            worker = self._worker(self._agent, self._client)

            async def fill_slot() -> None:
                for task in left:
                    outcome = await self._play(worker, task)
                    self._write([outcome])
                    outcomes.append(outcome)

            async with asyncio.TaskGroup() as group:
                for _ in range(self._sessions):
                    group.create_task(fill_slot())
        return outcomes

    def _worker(self, agent: Any, browsers: SessionSource) -> EpisodeWorker:
        return EpisodeWorker(
            agent=agent,
            browsers=browsers,
            sessions=self._sessions,
            settings=EnvironmentSettings(sites_url=self._sites_url).episode,
            screenshots=BlobStore(self._folder / "screenshots"),
            monitor=SilentMonitor(),
            unjudged=UnjudgedEpisodes(self._folder),
        )

    async def _play(self, worker: EpisodeWorker, task: Task) -> Outcome:
        item = WorkItem(task, 0, derive_seed(self._seed, "rollout", task.index, 0))
        return await worker(item, 1, asyncio.get_running_loop().time() + EPISODE_SECONDS)

    def _write(self, ended: Iterable[Outcome]) -> None:
        with (self._folder / "trajectories.jsonl").open("ab") as file:
            file.writelines(bytes(outcome.result) + b"\n" for outcome in ended)


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


class InLockstep:
    """An object with one method that returns when all of the batch have come to its end."""

    def __init__(self, inner: Any, method: str, barrier: Barrier) -> None:
        self.inner = inner
        self._method = method
        self._barrier = barrier

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)
        return self._waiting(found) if name == self._method else found

    def _waiting(self, method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def call(*given: Any, **named: Any) -> Any:
            result = await method(*given, **named)
            await self._barrier.wait()
            return result

        return call


class BrowsersInLockstep:
    """A SessionSource whose sessions step in lockstep."""

    def __init__(self, browsers: SessionSource, barrier: Barrier) -> None:
        self._browsers = browsers
        self._barrier = barrier

    async def get(self, lifetime_mins: float = 60, wait_seconds: float = 60) -> InLockstep:
        session = await self._browsers.get(lifetime_mins, wait_seconds)
        return InLockstep(session, "step", self._barrier)

    async def release(self, session: InLockstep) -> None:
        try:
            await self._browsers.release(session.inner)
        finally:
            self._barrier.leave()


class SilentMonitor:
    """Reports nothing."""

    def waiting(self, key: RolloutKey) -> None:
        pass

    def running(self, key: RolloutKey, phase: str, step: int) -> None:
        pass
