"""One iteration of rollouts, from its settings to its exit status.

The command first determines rank, tasks and sample, then starts its embedded servers and waits for
the browser server, the model and the judge. Only then episodes start. At the end each rank prints
its results; rank 0 waits for the other ranks and prints the results of all.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from rollgym.cli.process import relative_path, say_beside, say_error
from rollgym.cli.summary import format_count
from rollgym.engine import Coverage, ExitStatus
from rollgym.engine import run as run_loop
from rollgym.records import Task
from rollgym.store import IdentityError, RefusedError, differences, read_manifest, settings_identity
from webgym.models.verifiers import find_verifier
from webgym.models.web_agent import WebAgent
from webgym.rollout.aggregation import aggregate
from webgym.rollout.checks import (
    BrowserServerAddress,
    Endpoints,
    find_token,
    require_judge,
    require_servers,
)
from webgym.rollout.embedded import EmbeddedServers, embedded_servers
from webgym.rollout.environment_settings import EnvironmentSettings
from webgym.rollout.episode_processes import EpisodeProcesses
from webgym.rollout.gym import AsyncWebGym
from webgym.rollout.iteration import (
    ITERATION_ADVICE,
    IterationPaths,
    IterationReport,
    find_iteration,
    is_finished,
    last_iteration,
    read_report,
)
from webgym.rollout.ranks import announce, find_rank, meet
from webgym.rollout.reporting import (
    coverage_of,
    open_tracker,
    print_failures,
    print_files,
    print_metrics,
    print_verdict,
    print_verdicts,
    send_metrics,
)
from webgym.rollout.sample import Sample, SampleOrigin, share_sample
from webgym.rollout.settings import WebRolloutSettings
from webgym.rollout.web_agents import web_agent
from webgym.settings import WebSettingsError
from webgym.tasks.file import TaskFile, find_task_file
from webgym.utils.blocklist import Blocklist


def roll_out(settings: WebRolloutSettings) -> int:
    """Run one iteration; the exit status. Raises RefusedError, StorageError, EngineError."""
    job = IterationJob(settings)
    tasks = job.read_tasks()
    if job.is_done:
        return job.report_finished()
    job.require_prepared(tasks)
    job.meet_ranks()
    with job.servers() as servers:
        coverage = job.collect(tasks, servers)
    return job.finish(coverage)


class IterationJob:
    """The work of this rank in one iteration: its tasks, browser sessions, files and report."""

    def __init__(self, settings: WebRolloutSettings) -> None:
        """Check everything that can be checked without starting a server. Raises RefusedError."""
        environment = settings.env_config
        require_suitable_model(settings)
        self._settings = settings
        self._rank = rank = find_rank(environment, os.environ)
        self._token = find_token(environment, required="browser" not in settings.embedded)
        self._tasks_path = find_task_file(environment.tasks_file, settings.data_path)
        self._tracker = open_tracker(settings.tracker_config, settings.save_path)
        # The files of a single rank are those of the iteration.
        shared = rank.suffix if rank.count == 1 else ""
        self._shared = IterationPaths(
            settings.save_path, environment.split, chosen_iteration(settings, shared), shared
        )
        self._paths = self._shared.with_suffix(rank.suffix)
        self._was_finished = is_finished(self._shared)
        if not rank.is_known and self._shared.sample.exists():
            self._rank = rank.with_weights(Sample(self._shared.sample).header.origin.rank_weights)
        if self._rank.is_known:
            self._rank.sessions(environment.server_size)

    @property
    def is_done(self) -> bool:
        """Whether this rank has nothing to do."""
        return not self._settings.runs_again and (self._was_finished or is_finished(self._paths))

    def report_finished(self) -> int:
        """Print the results of a finished iteration; its exit status. Raises StorageError."""
        rank = f" on rank {self._rank.index}" if self._has_ranks else ""
        say_beside(f"Iteration {self._shared.iteration} is finished{rank}. No rollout was run.")
        if self._has_ranks and self._rank.is_master:
            return self._aggregate()
        paths = self._paths if self._paths.metrics.exists() else self._shared
        report = read_report(paths.metrics)
        if report is None:
            raise RefusedError(f"{paths.metrics} is missing: run the same command again")
        return self._print(paths, report, coverage_of(report))

    def read_tasks(self) -> TaskFile:
        """The checked task file.

        Raises RefusedError where a task is invalid, or where the iteration exists with another
        sample or other settings.
        """
        tasks = TaskFile(self._tasks_path)
        if self._shared.sample.exists():
            Sample(self._shared.sample).require(self._origin(tasks))
        if read_manifest(self._paths.run, ITERATION_ADVICE) is not None:
            environment = self._settings.env_config
            gym = self._gym(environment, self._token, ())
            require_same_run(self._paths.run, gym.identity(self._agent(environment)))
        return tasks

    def require_prepared(self, tasks: TaskFile) -> None:
        """Raise RefusedError where the tasks need sites, a judge or verifiers that are missing."""
        settings = self._settings
        has_sites = settings.env_config.sites_url or {"sites", "miniwob"} & set(settings.embedded)
        if tasks.needs_sites and not has_sites:
            raise WebSettingsError(
                f"tasks of {relative_path(tasks.path)} are on the test sites or MiniWoB++: start "
                "them with embedded=[sites] or [miniwob], or set env_config.sites_url to their URL"
            )
        for name in sorted(tasks.verifiers):
            find_verifier(name)
        every_row = tasks.rows(range(len(tasks)))
        require_judge(every_row, has_judge=settings.openai_config is not None)

    def meet_ranks(self) -> None:
        """Announce this rank, and learn the weights of all. Raises RankError, StorageError."""
        announce(self._shared, self._rank)
        timeout = self._settings.env_config.startup_timeout
        self._rank = meet(self._shared, self._rank, timeout=timeout, report=say_error)

    @property
    def _browsers(self) -> int:
        """The browser sessions of this rank. Raises RankError."""
        return self._rank.sessions(self._settings.env_config.server_size)

    def servers(self) -> AbstractContextManager[EmbeddedServers]:
        """The embedded servers of the run. Raises EmbeddedError."""
        settings = self._settings
        model = settings.embedded_model.options
        # Browser nodes on Ray have the sessions.
        browser = ("--role", "master") if settings.has_browsers_on_ray else ()
        return embedded_servers(settings.embedded, settings.save_path, self._token, model, browser)

    def collect(self, tasks: TaskFile, servers: EmbeddedServers) -> Coverage:
        """Wait for all servers, draw the sample and run the episodes.

        Raises RefusedError, StorageError, EngineError.
        """
        environment = with_addresses(self._settings.env_config, servers)
        agent = self._agent(environment)
        variable = environment.cpu_cluster_token_env_var
        browsers = BrowserServerAddress(environment.browser_url, servers.token, variable)
        within = environment.startup_timeout
        run_loop(require_servers(browsers, agent.endpoints, within, self._judges(tasks)))
        sample = self._draw(tasks)
        self._announce(sample)
        gym = self._gym(environment, servers.token, sample.tasks(self._rank.index))
        return gym.run(agent)

    def _processes(self, environment: EnvironmentSettings) -> EpisodeProcesses | None:
        """Worker processes with this rank's limits, if there are to be any."""
        if self._settings.cluster is None:
            return None
        limited = {"env_config": self._rank.resources(environment)}
        return EpisodeProcesses(self._settings.cluster, self._settings.model_copy(update=limited))

    def _gym(
        self, environment: EnvironmentSettings, token: str | None, tasks: Iterable[Task]
    ) -> AsyncWebGym:
        return AsyncWebGym(
            master_port=environment.master_port,
            host_ip=environment.host_ip,
            cpu_cluster_token=token,
            sampled_tasks=tasks,
            save_path=self._settings.save_path,
            num_workers=self._browsers,
            verbose=environment.verbose,
            task_timeout_minutes=environment.task_timeout_minutes,
            completion_threshold=self._settings.completion_threshold,
            completion_grace_period=environment.completion_grace_period,
            blocklist_manager=self._blocklist(),
            skip_instance_cleanup=environment.skip_instance_cleanup,
            multinode_rank_suffix=self._rank.suffix,
            split=environment.split,
            env_config={**environment.plain, "seed": self._settings.seed},
            interaction_mode=self._settings.context_config.interaction_mode,
            iteration_paths=self._paths,
            rank=self._rank,
            retry_failed=self._settings.retry_failed,
            retry_omitted=self._settings.retry_omitted,
            processes=self._processes(environment),
        )

    def finish(self, coverage: Coverage) -> int:
        """Print the results of this rank, on rank 0 those of all ranks; the exit status.

        Raises StorageError.
        """
        print_failures(self._paths.run)
        if coverage.abandoned:
            say_beside(
                f"{format_count(coverage.abandoned, 'episode')} did not end after cancellation"
            )
        if coverage.resumed == coverage.expected and not coverage.attempts:
            say_beside("All rollouts were done already. No rollout was run.")
        if self._has_ranks and self._rank.is_master and not coverage.unresolved:
            say_beside(f"rank {self._rank.index} of {self._rank.count}: {coverage}")
            return self._aggregate()
        return self._print(self._paths, read_report(self._paths.metrics), coverage)

    @property
    def _has_ranks(self) -> bool:
        return self._rank.count > 1

    def _aggregate(self) -> int:
        """Aggregate the files of all ranks that finish in time."""
        minutes = self._settings.env_config.aggregation_timeout_minutes
        found = aggregate(self._shared, timeout=60 * minutes, report=say_error)
        for rank in found.kept:
            say_error(f"note: rank {rank} is taken from the earlier aggregated file")
        for missing in found.missing:
            say_beside(f"missing: {missing}; run rank 0 again after it has finished")
        self._print(self._shared, found.report, coverage_of(found.report))
        return found.exit_status

    def _print(
        self, paths: IterationPaths, report: IterationReport | None, coverage: Coverage
    ) -> ExitStatus:
        if report is not None:
            print_metrics(report.metrics)
            print_verdicts(report)
            self._track(report)
        print_files(paths)
        return print_verdict(coverage, paths.iteration, self._next_step)

    def _track(self, report: IterationReport) -> None:
        """Send the metrics of the iteration to the tracker once, when they are final."""
        is_sent = self._was_finished and self.is_done
        if self._tracker and report.final and self._rank.is_master and not is_sent:
            numbers = msgspec.structs.asdict(report.metrics)
            named = {f"{report.split}/{name}": number for name, number in numbers.items()}
            send_metrics(self._tracker, named, report.iteration)

    @property
    def _next_step(self) -> str:
        """The advice when every rollout is completed."""
        is_named = self._settings.iteration is not None
        following = f"iteration={self._shared.iteration + 1}"
        if self._has_ranks and not self._rank.is_master:
            aggregation = "rank 0 aggregates the files of all ranks"
            until = f"; until then, use {following} to start the next iteration on this rank"
            return aggregation if is_named or self._was_finished else aggregation + until
        return f"Done. {following if is_named else 'The same command'} starts the next iteration."

    def _draw(self, tasks: TaskFile) -> Sample:
        """The sample of the iteration, the same for all ranks."""
        blocked = self._blocklist().blocked_domains
        return share_sample(self._shared.sample, self._origin(tasks), tasks, blocked)

    def _origin(self, tasks: TaskFile) -> SampleOrigin:
        """The settings that decide the sample."""
        environment = self._settings.env_config
        return SampleOrigin(
            split=environment.split,
            iteration=self._shared.iteration,
            seed=self._settings.seed,
            tasks_sha256=tasks.sha256,
            sampler=environment.train_tasks_sampler,
            size=environment.rollout_size,
            repeats=environment.repeats,
            difficulty_ratio=environment.difficulty_ratio or {},
            domain_ratio=environment.domain_ratio or {},
            rank_weights=self._rank.weights,
        )

    def _agent(self, environment: EnvironmentSettings) -> WebAgent:
        return web_agent(self._settings, self._rank.resources(environment))

    def _judges(self, tasks: TaskFile) -> Sequence[Endpoints]:
        """The endpoints of the judges that the tasks need."""
        is_needed = tasks.needs_judge or self._settings.env_config.watch_for_blocking
        judge = self._settings.openai_config
        return judge.all_endpoints if judge and is_needed else ()

    def _blocklist(self) -> Blocklist:
        return Blocklist(self._shared.blocklist, self._settings.blocklist_config)

    def _announce(self, sample: Sample) -> None:
        header, rank = sample.header, self._rank
        tasks, rollouts = sample.count(rank.index), sample.rollouts(rank.index)
        which = f", rank {rank.index} of {rank.count}" if self._has_ranks else ""
        say_error(
            f"{header.origin.split} iteration {header.origin.iteration}{which}: "
            f"{format_count(tasks, 'task')}, {format_count(rollouts, 'rollout')} in "
            f"{format_count(self._browsers, 'browser')}, "
            f"to {relative_path(self._paths.trajectories)}"
        )
        for note in header.notes:
            say_error(f"note: {note}")
        if header.blocked:
            counted = ", ".join(f"{count} of {host}" for host, count in header.blocked.items())
            say_error(f"note: tasks of blocked domains are excluded: {counted}")


def require_suitable_model(settings: WebRolloutSettings) -> None:
    """Raise WebSettingsError where `model_type` does not fit the embedded policy or model."""
    model = settings.model
    is_bundled = "model" in settings.embedded and settings.embedded_model.model_path is None
    if is_bundled and model.interface.vision:
        raise WebSettingsError(
            "embedded: the bundled model reads pages as text: give model_config.model_type=text"
        )
    if "scripted" in settings.embedded and settings.model.model_type != "baseline":
        raise WebSettingsError(
            "embedded: the policy `scripted` is not a model and reads pages as text: give "
            "model_config.model_type=baseline"
        )


def chosen_iteration(settings: WebRolloutSettings, suffix: str = "") -> int:
    """The iteration of this command; `suffix` is that of a single rank. Raises StorageError."""
    if settings.iteration is not None:
        return settings.iteration
    split = settings.env_config.split
    if settings.runs_again:
        return last_iteration(settings.save_path, split) or 0
    return find_iteration(settings.save_path, split, suffix)


def with_addresses(settings: EnvironmentSettings, servers: EmbeddedServers) -> EnvironmentSettings:
    """The settings with the addresses of the embedded servers."""
    found: dict[str, object] = {}
    if servers.browser_url is not None:
        parts = urlsplit(servers.browser_url)
        found |= {"host_ip": parts.hostname, "master_port": parts.port}
    if servers.sites_url is not None:
        found["sites_url"] = servers.sites_url
    if servers.model_url is not None:
        found["vllm_server_url"] = servers.model_url
    return settings.model_copy(update=found)


def require_same_run(directory: Path, config: Mapping[str, Any]) -> None:
    """Raise IdentityError where the existing run was started with other values in `config`.

    Settings that are not in `config` are not compared.
    """
    manifest = read_manifest(directory, ITERATION_ADVICE)
    if manifest is None:
        return
    identity = manifest.identity
    known = {name: value for name, value in identity.config.items() if _root(name) in config}
    given = settings_identity(config)
    lines = differences(
        msgspec.structs.replace(identity, config=known),
        msgspec.structs.replace(identity, config=given.values, left_out=tuple(given.left_out)),
    )
    if lines:
        listed = "\n  ".join(lines)
        raise IdentityError(
            f"{directory} was started with other settings:\n  {listed}\n"
            "Nothing was changed. Give the same settings to continue it. Otherwise "
            f"{ITERATION_ADVICE.another_run}."
        )


def _root(name: str) -> str:
    """The first part of a dotted path."""
    return name.partition(".")[0].partition("[")[0]
