"""Episodes in worker processes: each has its own agent and its own client of the browser server.

The files of a run stay with the driver: screenshots, recordings and episodes without a verdict go
to it over the channel, and are on its disk when an episode goes on. The judge of a worker reads
screenshots the same way. Episodes report their progress to the monitor of the driver.

*Limits* of the settings hold for the run: browser sessions, requests to the browser server, calls
of the model and judges. Each process gets its part, as each rank does, and there are no more
processes than the smallest of them allows.
"""

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import msgspec

from rollgym.cli.process import say_error
from rollgym.cluster.link import Link
from rollgym.cluster.settings import ClusterSettings, worker_processes
from rollgym.cluster.worker_processes import WorkerProcesses, WorkerProgram
from rollgym.engine import EncodedAttempt, Stop, Worker, WorkItem
from rollgym.monitor import printable_line
from rollgym.records import Outcome, RolloutKey
from rollgym.records.decoding import JsonDecoder
from rollgym.servers.access import is_loopback
from rollgym.servers.launch.records import StartError
from rollgym.store import BlobRef, BlobStore
from webgym.browser.contract.profile import SessionProfile
from webgym.episode.interfaces import EpisodeMonitor
from webgym.episode.judging import UnjudgedEpisodes
from webgym.episode.worker import EpisodeWorker
from webgym.models.judge_questions import ScreenshotStore
from webgym.rollout.environment_settings import EnvironmentSettings
from webgym.rollout.ranks import Rank
from webgym.rollout.ray_browsers import browsers_on_ray
from webgym.rollout.settings import WebRolloutSettings
from webgym.rollout.web_agents import browser_sessions, web_agent
from webgym.trajectory.records import Trajectory
from webgym.utils.rollout_sampler import divide

PROGRAM = "webgym.rollout.episode_processes:episode_program"
PUT, READ = "screenshots.put", "screenshots.read"
FIND, KEEP, REMOVE = "unjudged.find", "unjudged.keep", "unjudged.remove"
PROGRESS = "episode"
_VARIABLE_ENDINGS = ("_variable", "_env_var")


class EpisodeOptions(msgspec.Struct, frozen=True):
    """What a worker process needs. `variables` are those that the settings name."""

    config: dict[str, Any]
    variables: dict[str, str]
    profile: SessionProfile
    token: str | None
    sessions: int
    number: int
    processes: int


class EpisodeProgress(msgspec.Struct, frozen=True, array_like=True):
    """The progress of an episode; without a phase it waits for a browser."""

    task: int
    repeat: int
    phase: str | None = None
    step: int = 0


class _File(msgspec.Struct, frozen=True, array_like=True):
    """A file to store, with the ending of its name."""

    data: bytes
    ending: str


class _Episode(msgspec.Struct, frozen=True, array_like=True):
    """An episode without a verdict, as JSON."""

    task: int
    repeat: int
    trajectory: bytes = b""


_FILES = msgspec.msgpack.Decoder(_File)
_EPISODES = msgspec.msgpack.Decoder(_Episode)
_PROGRESS = msgspec.msgpack.Decoder(EpisodeProgress)
_TRAJECTORIES = JsonDecoder(Trajectory)
_ENCODE = msgspec.msgpack.Encoder().encode


# In the driver.


class EpisodeProcesses:
    """Worker processes for the episodes of a configuration."""

    def __init__(self, cluster: ClusterSettings, settings: WebRolloutSettings) -> None:
        """`settings` have the addresses of the servers, and the limits of this rank."""
        self._cluster = cluster
        self._settings = settings

    @property
    def is_ray(self) -> bool:
        return self._cluster.is_ray

    @asynccontextmanager
    async def workers(
        self,
        *,
        sessions: int,
        profile: SessionProfile,
        token: str | None,
        screenshots: BlobStore,
        unjudged: UnjudgedEpisodes,
        monitor: EpisodeMonitor,
        stop: Stop,
    ) -> AsyncIterator["RemoteEpisodes"]:
        """The engine's worker for this run, for the block. Raises StartError."""
        environment = self._settings.env_config
        driver = _Driver(screenshots, unjudged, monitor)

        def program(processes: int, host: str | None) -> WorkerProgram:
            if host is not None:
                _require_reachable(environment, host)

            def options(number: int) -> bytes:
                given = EpisodeOptions(
                    config=self._settings.plain,
                    variables=_named_variables(self._settings.plain),
                    profile=profile,
                    token=token,
                    sessions=divide(sessions, (1.0,) * processes)[number],
                    number=number,
                    processes=processes,
                )
                return msgspec.json.encode(given)

            return WorkerProgram(PROGRAM, options, driver.services, driver.take_note)

        limit = min(sessions, environment.max_vllm_sessions, environment.evaluation_workers)
        async with AsyncExitStack() as stack:
            processes = await stack.enter_async_context(
                worker_processes(self._cluster, program, stop.give_up, limit=limit, report=_report)
            )
            if self._settings.has_browsers_on_ray:
                sites = environment.sites_url
                allowed = [urlsplit(sites).netloc] if sites else []
                await stack.enter_async_context(
                    browsers_on_ray(
                        self._settings.ray_browsers_per_node,
                        environment.browser_url,
                        token,
                        allowed,
                    )
                )
            yield RemoteEpisodes(processes, driver)


class RemoteEpisodes:
    """The engine's worker. `waits` is as for `EpisodeWorker`."""

    def __init__(self, processes: WorkerProcesses, driver: "_Driver") -> None:
        self._processes = processes
        self._driver = driver

    def waits(self, key: RolloutKey) -> bool:
        """Whether this rollout has no browser yet."""
        return key in self._driver.waiting

    async def __call__(
        self, item: WorkItem, attempt: int, deadline: float
    ) -> Outcome | EncodedAttempt:
        try:
            return await self._processes(item, attempt, deadline)
        finally:
            self._driver.waiting.discard(item.key)


class _Driver:
    """What worker processes ask of the driver, and tell it."""

    def __init__(
        self, screenshots: BlobStore, unjudged: UnjudgedEpisodes, monitor: EpisodeMonitor
    ) -> None:
        self.waiting: set[RolloutKey] = set()
        self._screenshots = screenshots
        self._unjudged = unjudged
        self._monitor = monitor
        self.services = {
            PUT: self._put,
            READ: self._read,
            FIND: self._find,
            KEEP: self._keep,
            REMOVE: self._remove,
        }

    def take_note(self, topic: str, body: bytes) -> None:
        if topic != PROGRESS:
            return
        progress = _PROGRESS.decode(body)
        key = RolloutKey(progress.task, progress.repeat)
        if progress.phase is None:
            self.waiting.add(key)
            self._monitor.waiting(key)
        else:
            self.waiting.discard(key)
            self._monitor.running(key, progress.phase, progress.step)

    async def _put(self, body: bytes) -> bytes:
        file = _FILES.decode(body)
        return (await self._screenshots.put(file.data, file.ending)).name.encode()

    async def _read(self, body: bytes) -> bytes:
        return await self._screenshots.read(BlobRef(body.decode(), 0))

    async def _find(self, body: bytes) -> bytes:
        asked = _EPISODES.decode(body)
        found = await self._unjudged.find(RolloutKey(asked.task, asked.repeat))
        return msgspec.json.encode(found) if found else b""

    async def _keep(self, body: bytes) -> bytes:
        kept = _EPISODES.decode(body)
        key = RolloutKey(kept.task, kept.repeat)
        await self._unjudged.keep(key, _TRAJECTORIES.decode(kept.trajectory))
        return b""

    async def _remove(self, body: bytes) -> bytes:
        removed = _EPISODES.decode(body)
        await self._unjudged.discard(RolloutKey(removed.task, removed.repeat))
        return b""


def _require_reachable(settings: EnvironmentSettings, host: str) -> None:
    """Raise StartError for a server that only programs on this machine can reach."""
    models = settings.vllm_server_url
    urls: dict[str, object] = {
        "host_ip": settings.browser_url,
        "sites_url": settings.sites_url,
        "vllm_server_url": models if isinstance(models, str) else None,
    }
    for key, url in urls.items():
        if isinstance(url, str) and is_loopback(urlsplit(url).hostname or ""):
            raise StartError(
                f"env_config.{key}: workers on other machines cannot reach {url}. Start the server "
                f"with --host {host}, not with `embedded`, and give its address here"
            )


def _report(note: str) -> None:
    say_error(printable_line(f"note: {note}"))


def _named_variables(value: object) -> dict[str, str]:
    """The environment variables that settings name, which a process elsewhere does not have."""
    found: dict[str, str] = {}
    match value:
        case Mapping():
            for name, part in value.items():
                if str(name).endswith(_VARIABLE_ENDINGS) and isinstance(part, str):
                    found |= {part: os.environ[part]} if part in os.environ else {}
                else:
                    found |= _named_variables(part)
        case list() | tuple():
            for part in value:
                found |= _named_variables(part)
    return found


# In a worker process.


@asynccontextmanager
async def episode_program(encoded: bytes, link: Link) -> AsyncIterator[Worker]:
    """The program of a worker process."""
    options = msgspec.json.decode(encoded, type=EpisodeOptions)
    for name, value in options.variables.items():
        os.environ.setdefault(name, value)
    settings = WebRolloutSettings.of(options.config)
    rank = Rank(options.number, options.processes, (1.0,) * options.processes)
    environment: EnvironmentSettings = rank.resources(settings.env_config)
    files = _DriverFiles(link)
    agent = web_agent(settings, environment, ScreenshotStore(settings.save_path, files))
    async with (
        browser_sessions(environment, options.token, options.sessions, options.profile) as browsers,
        agent,
    ):
        yield EpisodeWorker(
            agent=agent,
            browsers=browsers,
            sessions=options.sessions,
            settings=environment.episode,
            screenshots=files,
            monitor=_DriverMonitor(link),
            unjudged=_DriverUnjudged(link),
        )


class _DriverFiles:
    """Stores files at the driver."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def put(self, data: bytes, extension: str = "") -> BlobRef:
        name = await self._link.call(PUT, _ENCODE(_File(data, extension)))
        return BlobRef(name.decode(), len(data))

    async def read(self, ref: BlobRef) -> bytes:
        return await self._link.call(READ, ref.name.encode())


class _DriverUnjudged:
    """The episodes without a verdict, at the driver."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def find(self, key: RolloutKey) -> Trajectory | None:
        found = await self._link.call(FIND, _ENCODE(_Episode(key.task, key.repeat)))
        return _TRAJECTORIES.decode(found) if found else None

    async def keep(self, key: RolloutKey, trajectory: Trajectory) -> None:
        episode = _Episode(key.task, key.repeat, msgspec.json.encode(trajectory))
        await self._link.call(KEEP, _ENCODE(episode))

    async def discard(self, key: RolloutKey) -> None:
        await self._link.call(REMOVE, _ENCODE(_Episode(key.task, key.repeat)))


class _DriverMonitor:
    """Reports progress to the driver."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def waiting(self, key: RolloutKey) -> None:
        self._link.note(PROGRESS, _ENCODE(EpisodeProgress(key.task, key.repeat)))

    def running(self, key: RolloutKey, phase: str, step: int) -> None:
        self._link.note(PROGRESS, _ENCODE(EpisodeProgress(key.task, key.repeat, phase, step)))
