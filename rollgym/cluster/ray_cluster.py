"""Worker processes as actors of a Ray cluster, an existing one or a local one.

Ray places the processes and starts them; everything else goes over the same channel as on one
machine. So no outcome passes through Ray's object store, and the nodes need no shared filesystem.

*Lifetime.* The actors belong to the driver: Ray ends them with it, and they end by themselves when
their connection breaks. A replacement is a new actor, which Ray places on another node where there
is room; until then it waits.

*A local cluster* ends with the collection. Ray lets it listen beyond loopback too, so it has a
token of its own.

*Code.* The nodes need rollgym of the same version. Plug-ins are found at the path that they have at
the driver, or else among those of the node: bundled ones, and those in its working directory, which
`ray job submit --working-dir` fills.
"""

import asyncio
import contextlib
import logging
import os
import secrets
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import msgspec

from rollgym.cluster.launchers import Launched, Launcher
from rollgym.cluster.process import Ticket, serve
from rollgym.cluster.ray_nodes import address_of, living_nodes, own_address
from rollgym.cluster.ray_servers import RayServerPlaces
from rollgym.cluster.settings import ClusterSettings
from rollgym.engine import run
from rollgym.servers.config.instances import LOOPBACK
from rollgym.servers.launch.records import StartError

ANSWER_TIMEOUT = 10.0
CONNECT_TIMEOUT = 90.0
"""Seconds for an existing cluster. Ray itself asks a cluster that is gone again and again."""
KILL_TIMEOUT = 5.0
_MODE, _TOKEN = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN"
_ADVICE = f"check ray_address, and {_TOKEN} where the cluster requires a token"


class RayWorker:
    """An actor: the process of one worker. Its name is what the dashboard shows."""

    def collect(self, ticket: bytes) -> str:
        """Run attempts for the driver of a ticket until it ends."""
        import ray  # noqa: PLC0415 - only with `launcher=ray`

        node = own_address(ray)
        read = msgspec.json.decode(ticket, type=Ticket)
        return run(serve(msgspec.structs.replace(read, node=node))) or "the driver ended it"


class RayPlaces(NamedTuple):
    """What a cluster offers: how many workers, their launcher, places for servers.

    `host` is the driver's in it; `is_spread` says that it has nodes on other machines.
    """

    workers: int
    launcher: Launcher
    servers: RayServerPlaces
    host: str
    is_spread: bool


@asynccontextmanager
async def ray_cluster(settings: ClusterSettings) -> AsyncIterator[RayPlaces]:
    """Connect to a Ray cluster, or start a local one, for the block. Raises StartError.

    Blocks inside one another use the connection of the outermost.
    """
    if settings.ray_address is None and _MODE not in os.environ and _TOKEN not in os.environ:
        # Ray reads them when it is imported.
        os.environ[_MODE], os.environ[_TOKEN] = "token", secrets.token_hex(32)
    try:
        import ray  # noqa: PLC0415 - only with `launcher=ray`
    except ImportError as error:
        raise StartError(
            "launcher=ray needs Ray: install rollgym[ray] here and on the nodes"
        ) from error
    if ray.is_initialized():  # by an outer block
        yield _places_of(ray, settings)
        return
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT if settings.ray_address else None):
            await asyncio.to_thread(_connect, ray, settings)
    except TimeoutError as error:
        raise StartError(
            f"the Ray cluster at {settings.ray_address} did not answer within "
            f"{CONNECT_TIMEOUT:g} s; {_ADVICE}"
        ) from error
    try:
        yield _places_of(ray, settings)
    finally:
        await asyncio.to_thread(ray.shutdown)


def _places_of(ray: Any, settings: ClusterSettings) -> RayPlaces:
    host = own_address(ray)
    workers = settings.processes or _places(ray, settings.ray_cpus_per_worker)
    is_spread = any(address_of(node) != host for node in living_nodes(ray))
    launcher = _RayActors(ray, settings.ray_cpus_per_worker)
    is_local = settings.ray_address is None
    servers = RayServerPlaces(ray, host if is_spread else None, LOOPBACK if is_local else None)
    return RayPlaces(workers, launcher, servers, host, is_spread)


def _connect(ray: Any, settings: ClusterSettings) -> None:
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR, "configure_logging": False}
    address = settings.ray_address
    logging.getLogger("ray").setLevel(logging.ERROR)
    try:
        if address is not None:
            _require_answer(address)
            ray.init(address=address, **quiet)
            return
        processes = settings.processes
        cpus = None if processes is None else processes * settings.ray_cpus_per_worker
        ray.init(
            address="local",
            num_cpus=None if cpus is None else max(1, round(cpus)),
            include_dashboard=False,
            **quiet,
        )
    except StartError:
        raise
    except Exception as error:
        which = f"the Ray cluster at {address}" if address else "a local Ray cluster"
        raise StartError(
            f"{which} cannot be used: {type(error).__name__}: {str(error)[:1000]}; {_ADVICE}"
        ) from error


def _require_answer(address: str) -> None:
    """Raises StartError where nothing listens at a host and port; other addresses are not asked."""
    host, _, port = address.rpartition(":")
    if not port.isdecimal() or "/" in host:
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), ANSWER_TIMEOUT).close()
    except (OSError, OverflowError) as error:
        raise StartError(
            f"no Ray cluster answers at {address} ({error}): check ray_address"
        ) from error


def _places(ray: Any, cpus: float) -> int:
    """How many workers the CPUs of the nodes have room for."""
    resources = (node["Resources"] for node in living_nodes(ray))
    places = sum(int(each.get("CPU", 0.0) // cpus) for each in resources)
    if not places:
        raise StartError(
            f"no node of the Ray cluster has {cpus:g} CPUs for a worker: lower ray_cpus_per_worker"
        )
    return places


class _RayActors:
    def __init__(self, ray: Any, cpus: float) -> None:
        self._ray = ray
        self._actor = ray.remote(RayWorker)
        self._cpus = cpus

    async def start(self, name: str, ticket: Ticket) -> Launched:
        actor = self._actor.options(
            name=f"rollgym {name}, start {ticket.launch}",
            num_cpus=self._cpus,
            max_restarts=0,
            max_task_retries=0,
            scheduling_strategy="SPREAD",
        ).remote()
        collecting = actor.collect.options(name="collect rollouts").remote(
            msgspec.json.encode(ticket)
        )
        return _RayProcess(self._ray, actor, asyncio.wrap_future(collecting.future()))


class _RayProcess:
    can_wait = True

    def __init__(self, ray: Any, actor: Any, collecting: "asyncio.Future[str]") -> None:
        self._ray = ray
        self._actor = actor
        self._collecting = collecting

    async def ended(self) -> str:
        await asyncio.wait({self._collecting})
        if self._collecting.cancelled():
            return "was cancelled"
        if (error := self._collecting.exception()) is None:
            return "ended"
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return f"was lost ({type(error).__name__}: {' '.join(lines)[:500]})"

    def is_its_own_end(self, how: str) -> bool:
        return False  # Ray does not tell a crash from a kill

    async def kill(self) -> None:
        if self._collecting.done() and self._collecting.exception() is not None:
            return
        with contextlib.suppress(Exception):  # the cluster may be gone
            await asyncio.to_thread(self._ray.kill, self._actor)
        await asyncio.wait({self._collecting}, timeout=KILL_TIMEOUT)
