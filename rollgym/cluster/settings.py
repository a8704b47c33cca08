"""Where the attempts of a collection run, and opening the worker processes there."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Literal

import msgspec

from rollgym.cluster.launchers import LocalProcesses
from rollgym.cluster.worker_processes import WorkerProcesses, WorkerProgram
from rollgym.servers.launch.places import ServerPlaces

LauncherName = Literal["processes", "ray"]


class ClusterSettings(msgspec.Struct, frozen=True):
    """The launcher of worker processes, and their number; None is one for each place that Ray has.

    `ray_address` is that of an existing cluster; without one, a local cluster is started.
    """

    launcher: LauncherName
    processes: int | None = None
    ray_address: str | None = None
    ray_cpus_per_worker: float = 1.0

    @classmethod
    def of(
        cls,
        launcher: LauncherName | None,
        processes: int | None,
        ray_address: str | None,
        ray_cpus_per_worker: float,
    ) -> "ClusterSettings | None":
        """The settings that options describe; None where this process runs the attempts itself."""
        if launcher == "ray":
            return cls("ray", processes, ray_address, ray_cpus_per_worker)
        if launcher is None and (processes is None or processes == 1):
            return None
        return cls("processes", processes or 1)

    @property
    def early(self) -> int:
        """How many processes of this machine may start before it is known what they will run."""
        return 0 if self.is_ray else self.processes or 1

    @property
    def is_ray(self) -> bool:
        return self.launcher == "ray"


def require_ray(ray_address: str | None, given: Mapping[str, object]) -> None:
    """Raises ValueError for the address of a cluster that the other options do not use."""
    if ray_address is not None and given.get("launcher", "ray") != "ray":
        raise ValueError("must be null without launcher=ray")


@asynccontextmanager
async def worker_processes(
    settings: ClusterSettings,
    make_program: Callable[[int, str | None], WorkerProgram],
    give_up: Callable[[str], None],
    *,
    limit: int | None = None,
    report: Callable[[str], object] = lambda _: None,
    local: LocalProcesses | None = None,
) -> AsyncIterator[WorkerProcesses]:
    """The worker processes, ready for attempts, for the block.

    `make_program` gets their number, which is at most `limit`, and the address of this machine if
    some of them run on others. `give_up` is called with the reason
    when all of them are lost. `local` may have started processes. Raises StartError.
    """
    local = local or LocalProcesses()
    async with AsyncExitStack() as stack:
        if settings.is_ray:
            from rollgym.cluster.ray_cluster import ray_cluster  # noqa: PLC0415 - imports Ray

            cluster = await stack.enter_async_context(ray_cluster(settings))
            number, launcher, host = cluster.workers, cluster.launcher, cluster.host
            reached_at = host if cluster.is_spread else None
        else:
            number, launcher, host = settings.processes or 1, local, None
            reached_at = None
        if limit is not None and limit < number:
            report(
                f"{limit} worker processes in place of {number}: the limit of a model "
                f"(max_concurrency) is {limit} requests"
            )
            number = limit
        program = make_program(number, reached_at)
        workers = WorkerProcesses(program, launcher, number, give_up, host=host)
        await stack.enter_async_context(workers)
        local.end_early()
        yield workers


@asynccontextmanager
async def server_places(settings: ClusterSettings | None) -> AsyncIterator[ServerPlaces | None]:
    """The places for servers on a Ray cluster, for the block; None without one.

    Raises StartError.
    """
    if settings is None or not settings.is_ray:
        yield None
        return
    from rollgym.cluster.ray_cluster import ray_cluster  # noqa: PLC0415 - imports Ray

    async with ray_cluster(settings) as cluster:
        yield cluster.servers
