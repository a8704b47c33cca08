"""AsyncWebGym: runs sampled tasks with an agent, many at a time, and writes their trajectories.

It combines the parts and decides nothing itself: the engine admits, retries, times and stops;
`webgym.episode` runs an episode; the store keeps every finished rollout before it is counted; the
files of the iteration and the monitor follow the store. An interrupted run is continued by running
it again.

*Limits.* `num_workers` browser sessions are in use at a time. Further `evaluation_workers` episodes
may run: those are with the judge, or next for a browser.
"""

import asyncio
import inspect
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path

import msgspec

from rollgym.cli.process import say_error
from rollgym.cluster.ray_metrics import RayMetrics
from rollgym.ctl import control_socket
from rollgym.engine import (
    Control,
    Coverage,
    Fixed,
    Observer,
    Policy,
    RetryPolicy,
    RetryRule,
    Stop,
    StopLevel,
    collect,
    stopping_on_signals,
)
from rollgym.engine import run as run_loop
from rollgym.monitor import open_tracing
from rollgym.records import FailureKind, Prices, RolloutKey
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
from webgym.episode.interfaces import Agent, EpisodeSettings
from webgym.episode.judging import UnjudgedEpisodes
from webgym.episode.worker import END_GRACE_SECONDS, EpisodeWorker
from webgym.monitor.task_monitor import TaskMonitor
from webgym.rollout.environment_settings import RETRY_KEYS, EnvironmentSettings
from webgym.rollout.episode_processes import EpisodeProcesses, RemoteEpisodes
from webgym.rollout.iteration import ITERATION_ADVICE, IterationLabels, IterationPaths
from webgym.rollout.iteration_files import IterationFiles, OnCheckpoint, OnTrajectory
from webgym.rollout.ranks import Rank, announce, find_rank
from webgym.rollout.sample import Sampled, tasks_of
from webgym.rollout.web_agents import browser_sessions
from webgym.settings import known_values, plain_mapping, read_settings
from webgym.tasks.task import Split, WebTask
from webgym.utils.blocklist import BlocklistObserver, DomainLearner

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
        blocklist_manager: DomainLearner | None = None,
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
        processes: EpisodeProcesses | None = None,
    ) -> None:
        """`env_config` and `retry_policy` are dictionaries or Hydra nodes, such as the whole
        `env_config` of a configuration. Their unknown keys are reported as UnknownKeyWarning and
        not used. An argument that has its default leaves the value of `env_config`.

        Limits in `env_config` are those of all ranks together; `num_workers` is of this one.
        Without `iteration_paths` it is iteration 0 of `save_path`. `processes` run the episodes in
        place of this process, with agents of their own. Raises RefusedError.
        """
        if num_workers < 1:
            raise RefusedError(f"num_workers is {num_workers}: give 1 or more")
        config = plain_mapping(env_config, "env_config")
        self._seed = config.pop("seed", 0)
        if not isinstance(self._seed, int):
            raise RefusedError(f"env_config.seed is {self._seed!r:.60}: give a whole number")
        config = known_values(EnvironmentSettings, config, name="env_config")
        retry = known_values(
            EnvironmentSettings, retry_policy, name="retry_policy", only=RETRY_KEYS
        )
        for name, values in (("env_config", config), ("retry_policy", retry)):
            read_settings(EnvironmentSettings, values, name=name)
        arguments = {
            "split": split,
            "host_ip": host_ip,
            "master_port": master_port,
            "verbose": verbose,
            "task_timeout_minutes": task_timeout_minutes,
            "completion_threshold": completion_threshold,
            "completion_grace_period": completion_grace_period,
            "skip_instance_cleanup": skip_instance_cleanup,
            "multinode_rank_suffix": multinode_rank_suffix,
        }
        settings = read_settings(
            EnvironmentSettings,
            {**arguments, **config, **retry, **_given(arguments)},
            name="AsyncWebGym",
        )
        self._rank = rank or find_rank(settings, {})
        self._settings = settings = self._rank.resources(settings)
        self._profile = self._settings.session.profile
        self._token = cpu_cluster_token
        self._sampled = sampled_tasks
        self._sessions = num_workers
        self._verbose = settings.verbose
        self._blocklist = blocklist_manager
        self._processes = processes
        self._mode: InteractionMode = interaction_mode
        self._is_alone = iteration_paths is None
        self._paths = iteration_paths or IterationPaths(
            Path(save_path), settings.split, 0, self._rank.suffix
        )
        reopened = {Status.FAILED: retry_failed, Status.OMITTED: retry_omitted}
        self._reopen = [status for status, wanted in reopened.items() if wanted]
        self._policy = _policy(settings, num_workers)

    @property
    def settings(self) -> EnvironmentSettings:
        """The settings in use, with this rank's part of every limit."""
        return self._settings

    @property
    def paths(self) -> IterationPaths:
        """The paths of the iteration's files."""
        return self._paths

    def run(
        self,
        agent: Agent,
        checkpoint_callback: OnCheckpoint | None = None,
        *,
        trajectory_callback: OnTrajectory | None = None,
    ) -> Coverage:
        """Run all rollouts without an outcome; the coverage of the run.

        `checkpoint_callback` gets the path of the `.pt` file each time it was written, also at the
        end. `trajectory_callback` gets each trajectory in its plain form when its rollout has ended
        and is on disk. Ctrl-C lets running episodes end; a second one stops at once. Raises
        RefusedError, StoreError, EngineError.
        """
        return run_loop(
            self.collect(agent, checkpoint_callback, trajectory_callback=trajectory_callback)
        )

    async def collect(
        self,
        agent: Agent,
        checkpoint_callback: OnCheckpoint | None = None,
        *,
        trajectory_callback: OnTrajectory | None = None,
        stop: Stop | None = None,
        control: Control | None = None,
    ) -> Coverage:
        """As `run`, in the running event loop. `control` changes the collection while it runs."""
        control = control or Control()
        if agent.context.interaction_mode != self._mode:
            raise RefusedError(
                f"the environment has interaction_mode {self._mode}, the agent "
                f"{agent.context.interaction_mode}: give both the same"
            )
        labels, paths = _TaskLabels(), self._paths
        if self._is_alone:
            announce(paths, self._rank)
        with (
            TaskMonitor(
                sys.stderr if self._verbose else None,
                title=f"{paths.split} iteration {paths.iteration}{paths.suffix}",
                label=labels,
                file=self._paths.monitor,
                timeout_after=_episode_seconds(self._settings),
            ) as monitor,
            self._open(agent, monitor) as store,
            TaskLookup(store.inputs.path) as lookup,
            self._files(store, agent, checkpoint_callback, trajectory_callback) as files,
            UnjudgedEpisodes(store.directory) as unjudged,
        ):
            labels.lookup = lookup
            await asyncio.to_thread(files.rebuild)
            async with AsyncExitStack() as stack:
                await stack.enter_async_context(control_socket(store, control, _report))
                if self._processes is not None and stop is None:
                    stop = stack.enter_context(_stopping())
                worker = await stack.enter_async_context(
                    self._worker(agent, monitor, unjudged, stop)
                )
                observers: list[Observer] = [monitor, files, unjudged]
                if self._blocklist is not None:
                    observers.append(BlocklistObserver(self._blocklist, lookup))
                if self._settings.otel_endpoint:
                    run_id = store.manifest.run_id
                    observers.append(open_tracing(self._settings.otel_endpoint, run_id))
                if self._processes is not None and self._processes.is_ray:
                    observers.append(RayMetrics())
                coverage = await collect(
                    store.inputs,
                    worker,
                    store,
                    self._policy,
                    observers,
                    stop=stop,
                    waits=worker.waits,
                    timeouts=monitor.timeouts,
                    control=control,
                )
            missed = files.name in coverage.dropped_events
            await asyncio.to_thread(files.finish, missed=missed)
            return coverage

    def identity(self, agent: Agent) -> dict[str, object]:
        """The settings that can change results, besides the tasks."""
        rules = msgspec.structs.asdict(self._settings.episode)
        left_out = settings_identity(rules, EpisodeSettings).left_out | {"split"}  # in the sample
        kept = {name: rules[name] for name in rules if name not in left_out}
        return {**agent.identity, **kept, **self._settings.session.identity}

    def _open(self, agent: Agent, monitor: TaskMonitor) -> RunStore:
        return open_run(
            self._paths.run,
            tasks_of(self._sampled),
            config=self.identity(agent),
            seed=self._seed,
            reopen=self._reopen,
            replay=monitor.replay,
            advice=ITERATION_ADVICE,
        )

    def _files(
        self,
        store: RunStore,
        agent: Agent,
        on_checkpoint: OnCheckpoint | None,
        on_trajectory: OnTrajectory | None,
    ) -> IterationFiles:
        return IterationFiles(
            trajectories=self._paths.trajectories,
            metrics=self._paths.metrics,
            directory=store.directory,
            holds=store.inputs.holds,
            expected=store.inputs.expected,
            labels=IterationLabels(
                split=self._settings.split,
                iteration=self._paths.iteration,
                rank=self._rank.index,
                world_size=self._rank.count,
            ),
            agent=settings_identity(agent.identity).values,
            save_every_percent=self._settings.save_percent,
            on_checkpoint=on_checkpoint,
            on_trajectory=on_trajectory,
        )

    @asynccontextmanager
    async def _worker(
        self,
        agent: Agent,
        monitor: TaskMonitor,
        unjudged: UnjudgedEpisodes,
        stop: Stop | None,
    ) -> AsyncIterator[EpisodeWorker | RemoteEpisodes]:
        """The worker of this process, or that of worker processes."""
        settings, screenshots = self._settings, BlobStore(self._paths.screenshots)
        if self._processes is not None:
            async with self._processes.workers(
                sessions=self._sessions,
                profile=self._profile,
                token=self._token,
                screenshots=screenshots,
                unjudged=unjudged,
                monitor=monitor,
                stop=stop or Stop(),
            ) as remote:
                yield remote
            return
        async with (
            browser_sessions(settings, self._token, self._sessions, self._profile) as browsers,
            agent,
        ):
            yield EpisodeWorker(
                agent=agent,
                browsers=browsers,
                sessions=self._sessions,
                settings=settings.episode,
                screenshots=screenshots,
                monitor=monitor,
                unjudged=unjudged,
            )


def _report(note: str) -> None:
    say_error(f"note: {note}")


@contextmanager
def _stopping() -> Iterator[Stop]:
    """A request to stop that signals make; the loss of all worker processes makes it, too."""
    stop = Stop()
    with stopping_on_signals(stop.request, requests=StopLevel.NOW, hangup=False):
        yield stop


def _given(arguments: Mapping[str, object]) -> dict[str, object]:
    """The arguments of AsyncWebGym that differ from their default."""
    known = inspect.signature(AsyncWebGym).parameters
    return {name: each for name, each in arguments.items() if each != known[name].default}


class _TaskLabels:
    """The labels of rollouts in the monitor."""

    lookup: TaskLookup | None = None

    def __call__(self, key: RolloutKey) -> str:
        if self.lookup is None:
            return str(key)
        task = WebTask.of(self.lookup.task(key.task).row, str(key.task))
        return f"{task.task_id}: {task.task_name}"


def _episode_seconds(settings: EnvironmentSettings) -> float:
    """The longest time of an episode in a browser, up to its verdict."""
    task = 60 * settings.task_timeout_minutes
    return task + settings.evaluation_timeout + END_GRACE_SECONDS


def _policy(settings: EnvironmentSettings, sessions: int) -> Policy:
    """The engine's policy.

    An attempt may wait for a browser before its own time starts. Failures that pass by themselves,
    such as a server that restarts, keep the engine's retry rules. A stopped run lets running
    episodes end.
    """
    attempts = settings.max_retries + 1
    by_kind = {kind: rule for kind, rule in RetryPolicy().by_kind.items() if settings.max_retries}
    by_kind[FailureKind.TIMEOUT] = RetryRule(min(attempts, 2))
    if settings.max_retries:
        # A start page that cannot be opened may belong to a site that is restarting.
        by_kind[FailureKind.ENVIRONMENT] = RetryRule(max(attempts, START_PAGE_ATTEMPTS))
    task = 60 * settings.task_timeout_minutes + settings.evaluation_timeout
    attempt = settings.wait_timeout + task + END_GRACE_SECONDS
    return Policy(
        concurrency=Fixed(sessions + settings.evaluation_workers),
        retry=RetryPolicy(default=RetryRule(attempts), by_kind=by_kind),
        attempt_timeout=attempt,
        rollout_timeout=attempts * attempt,
        completion_threshold=settings.completion_threshold,
        completion_grace_period=settings.completion_grace_period,
        drain_timeout=task,
        max_same_failures=settings.max_same_failures,
        refills=settings.refills,
        max_tokens=settings.max_tokens,
        max_cost=settings.max_cost,
        prices=Prices.read(settings.prices or {}),
    )
