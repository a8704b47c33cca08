"""What the commands that make rollouts have in common: the files, the numbers, and the hints."""

import os
import shlex
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from pathlib import Path

from rollgym.cli.collection import View
from rollgym.cli.rollout_settings import RolloutSettings, SettingsError
from rollgym.cli.servers import Clients, ServersOfRun
from rollgym.cli.summary import OVERRIDES
from rollgym.engine import Worker
from rollgym.rollouts.aggregate import RunNumbers
from rollgym.rollouts.files import Render, RolloutFiles
from rollgym.rollouts.output_row import output_row
from rollgym.rollouts.paths import RolloutPaths, put_aside
from rollgym.store import RefusedError, RunStore


class RolloutJob:
    """A collection whose rollouts go to a JSONL file.

    `make_worker` is given the clients of the servers. `sampling_seed` is told to the agents, one
    more for each repeat. `render` makes the row of a completed rollout.
    """

    flags = OVERRIDES

    def __init__(
        self,
        settings: RolloutSettings,
        paths: RolloutPaths,
        servers: ServersOfRun,
        make_worker: Callable[[Clients], Worker],
        *,
        sampling_seed: int | None = None,
        render: Render = output_row,
    ) -> None:
        self._settings = settings
        self._paths = paths
        self._servers = servers
        self._make_worker = make_worker
        self._sampling_seed = sampling_seed
        self._render = render

    def views(self, store: RunStore) -> AbstractContextManager[Sequence[View]]:
        return self._views(store)

    @contextmanager
    def _views(self, store: RunStore) -> Iterator[Sequence[View]]:
        if not self._settings.resume:
            put_aside(self._paths)
        holds = store.inputs.holds
        with RolloutFiles(self._paths, store.directory, holds, self._render) as files:
            files.put_right()
            if not self._paths.materialized_inputs.exists():
                files.write_materialized_inputs(self._sampling_seed)
            yield [files]

    @asynccontextmanager
    async def working(self, store: RunStore) -> AsyncIterator[Worker]:
        async with self._servers.clients() as clients:
            yield self._make_worker(clients)
            numbers = RunNumbers(store.directory, store.inputs.holds)
            for note in await numbers.write(self._paths.aggregate_metrics, clients):
                print(f"note: {note}", file=sys.stderr)

    def hints(self, store: RunStore) -> Iterator[str]:
        output = shlex.quote(shown(self._paths.output))
        yield f"rollouts:          {output}"
        yield f"failed attempts:   {shown(self._paths.failures)}"
        yield f"inputs as sent:    {shown(self._paths.materialized_inputs)}"
        yield f"aggregate metrics: {shown(self._paths.aggregate_metrics)}"
        yield f"journal:           {shown(store.directory)}/"
        yield f"look at them:      ng_viewer +jsonl_fpath={output}"


def refuse_unsafe_output(paths: RolloutPaths, settings: RolloutSettings) -> None:
    """A file that no run of ours is beside is somebody's, and is not written to.

    Raises RefusedError.
    """
    if settings.input_jsonl_fpath.resolve() == paths.output.resolve():
        raise SettingsError("+output_jsonl_fpath is the input: give it a name of its own")
    if not settings.resume or paths.run.exists():
        return
    for path in (paths.output, paths.failures):
        if path.exists() and path.stat().st_size:
            raise RefusedError(
                f"{path} exists, but {paths.run}, the run it would belong to, does not: nothing "
                "was changed. Give another +output_jsonl_fpath, or +resume=false to put the file "
                "aside and start anew."
            )


def announce(tasks: int, rollouts: int, paths: RolloutPaths, settings: RolloutSettings) -> None:
    part = f", of which shard {settings.shard}," if settings.shard else ""
    print(f"{tasks} tasks, {rollouts} rollouts{part} into {shown(paths.output)}", file=sys.stderr)


def shown(path: Path) -> str:
    """As a person here would write it."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith(os.pardir) else relative
