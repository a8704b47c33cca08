"""AsyncWebGym: runs the sampled tasks with an agent, many at a time, and leaves their trajectories.

It brings the parts together and decides nothing itself: the engine admits, retries, times and
stops; `webgym.episode` plays; the store keeps every finished rollout before it is counted; the
files of the iteration and the monitor follow the store. A run that was interrupted is continued by
running it again.

*Limits.* `num_workers` browsers are held at a time. As many episodes more as there are evaluation
workers may be under way: those are with the judge, or next in line for a browser.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from rollgym.engine import (
    Coverage,
    Fixed,
    Observer,
    Policy,
    RetryPolicy,
    RetryRule,
    Stop,
    collect,
)
from rollgym.engine import run as run_loop
from rollgym.records import FailureKind, RolloutKey
from rollgym.store import (
    BlobStore,
    RefusedError,
    RunStore,
    Status,
    TaskLookup,
    open_run,
    settings_identity,
)
from webgym.browser.contract.commands import InteractionMode
from webgym.environment.client import BrowserClient
from webgym.environment.process_isolator import IsolatedBrowserClient
from webgym.environment.task_monitor import TaskMonitor
from webgym.episode.browsers import Browsers
from webgym.episode.environment_settings import EnvironmentSettings, RetrySettings, read_config
from webgym.episode.held import HeldSessions
from webgym.episode.learning import Blocking, BlocklistTeacher
from webgym.episode.parts import Agent
from webgym.episode.sampled import Sampled, tasks_of
from webgym.episode.settings import EpisodeSettings
from webgym.episode.worker import LAST_WORDS, EpisodeWorker
from webgym.iteration.files import IterationFiles, OnTrajectory
from webgym.iteration.paths import ITERATION_ADVICE, IterationPaths
from webgym.iteration.ranks import Rank
from webgym.iteration.report import IterationLabels
from webgym.tasks import Split, WebTask

START_PAGE_ATTEMPTS = 5


class AsyncWebGym:
    """The environment of an iteration of rollouts; see docs/web-agents.md for every parameter."""

    def __init__(  # noqa: PLR0917 - the signature that users know
        self,
        master_port: int = 7000,
        host_ip: str = "localhost",
        cpu_cluster_token: str | None = None,
        sampled_tasks: Sampled = (),
        save_path: str | Path = ".",
        num_workers: int = 20,
        verbose: bool = True,
        retry_policy: object = None,
        task_timeout_minutes: float = 20,
        completion_threshold: float = 0.98,
        completion_grace_period: float = 120,
        blocklist_manager: Blocking | None = None,
        skip_instance_cleanup: bool = False,
        multinode_rank_suffix: str = "",
        split: Split = "train",
        env_config: object = None,
        interaction_mode: InteractionMode = "coordinates",
        *,
        iteration_paths: IterationPaths | None = None,
        rank: Rank | None = None,
        retry_failed: bool = False,
        retry_omitted: bool = False,
    ) -> None:
        """`env_config` and `retry_policy` are dictionaries or nodes of Hydra.

        Without `iteration_paths` it is iteration 0 of `save_path`. Raises RefusedError.
        """
        if num_workers < 1:
            raise RefusedError(f"num_workers is {num_workers}: there must be at least 1")
        self._settings = read_config("env_config", env_config, EnvironmentSettings)
        self._retry = read_config("retry_policy", retry_policy, RetrySettings)
        self._url = f"http://{f'[{host_ip}]' if ':' in host_ip else host_ip}:{master_port}"
        self._token = cpu_cluster_token
        self._sampled = sampled_tasks
        self._sessions = num_workers
        self._verbose = verbose
        self._blocking = blocklist_manager
        self._keep_sessions = skip_instance_cleanup
        self._mode: InteractionMode = interaction_mode
        self._split: Split = split
        self._rank = rank or Rank()
        self._paths = iteration_paths or IterationPaths(
            Path(save_path), split, 0, multinode_rank_suffix
        )
        reopened = {Status.FAILED: retry_failed, Status.OMITTED: retry_omitted}
        self._reopen = [status for status, wanted in reopened.items() if wanted]
        self._task_timeout = task_timeout_minutes * 60
        try:
            self._policy = _policy(
                episodes=num_workers + self._settings.evaluation_workers,
                wait=self._retry.wait_timeout,
                task=self._task_timeout,
                max_retries=self._retry.max_retries,
                threshold=completion_threshold,
                grace=completion_grace_period,
            )
        except ValueError as error:
            raise RefusedError(str(error)) from error

    @property
    def paths(self) -> IterationPaths:
        """Where everything of the iteration is."""
        return self._paths

    def run(self, agent: Agent, checkpoint_callback: OnTrajectory | None = None) -> Coverage:
        """Run what has no outcome yet; how much there is of everything then.

        `checkpoint_callback` is given each trajectory, as it stands in the file, when its rollout
        has ended and is on disk. Ctrl-C lets running episodes end, twice stops at once. Raises
        RefusedError, StoreError, EngineError.
        """
        return run_loop(self.collect(agent, checkpoint_callback))

    async def collect(
        self,
        agent: Agent,
        checkpoint_callback: OnTrajectory | None = None,
        *,
        stop: Stop | None = None,
    ) -> Coverage:
        """As `run`, in a loop that is running."""
        if agent.context.interaction_mode != self._mode:
            raise RefusedError(
                f"the environment is made for interaction_mode {self._mode}, the agent for "
                f"{agent.context.interaction_mode}: give both the same"
            )
        agent.evaluator.evaluation_workers = self._settings.evaluation_workers
        labels = _Labels()
        with (
            TaskMonitor(
                sys.stderr if self._verbose else None,
                title=f"{self._split} iteration {self._paths.iteration}{self._paths.suffix}",
                label=labels,
                file=self._paths.monitor,
            ) as monitor,
            self._open(agent, monitor) as store,
            TaskLookup(store.inputs.path) as lookup,
            self._files(store, agent, checkpoint_callback) as files,
        ):
            labels.lookup = lookup
            await asyncio.to_thread(files.put_right)
            async with self._browsers() as browsers, agent:
                worker = self._worker(agent, browsers, monitor)
                observers: list[Observer] = [monitor, files]
                if self._blocking is not None:
                    observers.append(BlocklistTeacher(self._blocking, lookup))
                coverage = await collect(
                    store.inputs,
                    worker,
                    store,
                    self._policy,
                    observers,
                    stop=stop,
                    waits=worker.waits,
                )
            missed = files.name in coverage.dropped_events
            await asyncio.to_thread(files.finish, missed=missed)
            return coverage

    def identity(self, agent: Agent) -> dict[str, object]:
        """What can change results, besides the tasks."""
        episodes = self._episodes()
        return {
            **agent.identity,
            "max_steps": dict(episodes.max_steps),
            "watch_for_blocking": episodes.watch_for_blocking,
        }

    def _open(self, agent: Agent, monitor: TaskMonitor) -> RunStore:
        return open_run(
            self._paths.run,
            tasks_of(self._sampled),
            config=self.identity(agent),
            seed=self._settings.seed,
            reopen=self._reopen,
            replay=monitor.replay,
            advice=ITERATION_ADVICE,
        )

    def _files(
        self, store: RunStore, agent: Agent, on_trajectory: OnTrajectory | None
    ) -> IterationFiles:
        return IterationFiles(
            trajectories=self._paths.trajectories,
            metrics=self._paths.metrics,
            directory=store.directory,
            holds=store.inputs.holds,
            expected=store.inputs.expected,
            labels=IterationLabels(
                split=self._split,
                iteration=self._paths.iteration,
                rank=self._rank.index,
                world_size=self._rank.count,
            ),
            agent=settings_identity(agent.identity).values,
            save_every_percent=self._settings.save_every_percent,
            on_trajectory=on_trajectory,
        )

    def _episodes(self) -> EpisodeSettings:
        return EpisodeSettings(
            split=self._split,
            max_steps=self._settings.max_steps(self._split),
            wait_timeout=self._retry.wait_timeout,
            task_timeout=self._task_timeout,
            operation_timeout=self._retry.operation_timeout,
            instance_lifetime_max=self._settings.instance_lifetime_max,
            watch_for_blocking=self._settings.watch_for_blocking,
            sites_url=self._settings.sites_url,
        )

    def _worker(self, agent: Agent, browsers: Browsers, monitor: TaskMonitor) -> EpisodeWorker:
        return EpisodeWorker(
            agent=agent,
            browsers=browsers,
            sessions=self._sessions,
            settings=self._episodes(),
            screenshots=BlobStore(self._paths.screenshots),
            watcher=monitor,
        )

    @asynccontextmanager
    async def _browsers(self) -> AsyncIterator[Browsers]:
        """The browser server, from this process or through others.

        Sessions that an episode could not give back are given back at the end.
        """
        timeout, connections = (
            self._retry.operation_timeout,
            self._retry.connections(self._sessions),
        )
        client: BrowserClient | IsolatedBrowserClient
        if self._settings.isolation == "process":
            workers = self._settings.isolation_workers
            client = IsolatedBrowserClient(self._url, self._token, timeout, workers=workers)
        else:
            client = BrowserClient(self._url, self._token, timeout, connections)
        async with client:
            held = HeldSessions(client, self._retry.taking, self._retry.giving)
            try:
                yield held
            finally:
                await held.release_all(abandoned=not self._keep_sessions)


class _Labels:
    """What the monitor calls a rollout."""

    lookup: TaskLookup | None = None

    def __call__(self, key: RolloutKey) -> str:
        if self.lookup is None:
            return str(key)
        task = WebTask.of(self.lookup.task(key.task).row, str(key.task))
        return f"{task.task_id}: {task.task_name}"


def _policy(
    *, episodes: int, wait: float, task: float, max_retries: int, threshold: float, grace: float
) -> Policy:
    """Raises ValueError.

    An attempt may wait for a browser before its own time begins. Of what passes by itself, such as
    a server that is started again, the engine's patience is kept. Who is asked to stop lets
    episodes that play come to their end.
    """
    attempts = max_retries + 1
    usual = RetryPolicy()
    by_kind = {kind: rule for kind, rule in usual.by_kind.items() if max_retries}
    by_kind[FailureKind.TIMEOUT] = RetryRule(min(attempts, 2))
    if max_retries:
        # A start page that cannot be opened may be that of a site which is just being restarted.
        by_kind[FailureKind.ENVIRONMENT] = RetryRule(max(attempts, START_PAGE_ATTEMPTS))
    return Policy(
        concurrency=Fixed(episodes),
        retry=RetryPolicy(default=RetryRule(attempts), by_kind=by_kind),
        attempt_timeout=wait + task + LAST_WORDS,
        rollout_timeout=attempts * (wait + task + LAST_WORDS),
        completion_threshold=threshold,
        completion_grace_period=grace,
        drain_timeout=task,
    )
