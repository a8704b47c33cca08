"""What the commands that make rollouts have in common: the files, the numbers, and the hints."""

import os
import shlex
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from pathlib import Path

from rollgym.cli.collection import View
from rollgym.cli.rollout_settings import RolloutSettings, SettingsError
from rollgym.cli.server_logs import SERVER_LOG, requests_logged_in
from rollgym.cli.servers import Clients, ServersOfRun
from rollgym.cli.summary import OVERRIDES, many
from rollgym.engine import Worker
from rollgym.monitor import printable_line
from rollgym.rollouts.aggregate import RunNumbers
from rollgym.rollouts.files import RolloutFiles
from rollgym.rollouts.paths import RolloutPaths, put_aside
from rollgym.rollouts.sampling import first_seed_of
from rollgym.store import RefusedError, RunStore

NOTE_LIMIT = 1_000


class RolloutJob:
    """A collection whose rollouts go to a JSONL file.

    `make_worker` is given the clients of the servers.
    """

    flags = OVERRIDES

    def __init__(
        self,
        settings: RolloutSettings,
        paths: RolloutPaths,
        servers: ServersOfRun,
        make_worker: Callable[[Clients], Worker],
    ) -> None:
        self._settings = settings
        self._paths = paths
        self._servers = servers
        self._make_worker = make_worker
        self._files: RolloutFiles | None = None

    def views(self, store: RunStore) -> AbstractContextManager[Sequence[View]]:
        return self._views(store)

    @contextmanager
    def _views(self, store: RunStore) -> Iterator[Sequence[View]]:
        if not self._settings.resume:
            put_aside(self._paths)
        holds, first_seed = store.inputs.holds, first_seed_of(store.manifest)
        with RolloutFiles(self._paths, store.directory, holds, first_seed) as files:
            files.put_right()
            files.write_materialized_inputs()
            self._files = files
            yield [files]

    @asynccontextmanager
    async def working(self, store: RunStore) -> AsyncIterator[Worker]:
        with requests_logged_in(store.directory):
            async with self._servers.clients() as clients:
                yield self._make_worker(clients)
                notes = await self._write_numbers(store, clients)
        for note in notes:
            print(printable_line(f"note: {note}", limit=NOTE_LIMIT), file=sys.stderr)

    async def _write_numbers(self, store: RunStore, clients: Clients) -> list[str]:
        roster = self._servers.roster
        usual = roster.without_own_metrics(roster.agents)
        asked = clients if len(usual) < len(roster.agents) else None
        numbers = RunNumbers(store.directory, store.inputs.holds)
        counted = self._files.numbers if self._files else None
        return await numbers.write(self._paths.aggregate_metrics, asked, usual, counted)

    def hints(self, store: RunStore) -> Iterator[str]:
        output = shown(self._paths.output)
        yield f"rollouts:          {output}"
        yield f"failed attempts:   {shown(self._paths.failures)}"
        yield f"inputs as sent:    {shown(self._paths.materialized_inputs)}"
        yield f"aggregate metrics: {shown(self._paths.aggregate_metrics)}"
        yield f"journal:           {shown(store.directory)}/"
        if (store.directory / SERVER_LOG).exists():
            yield f"failed requests:   {shown(store.directory / SERVER_LOG)}"
        yield f"look at them:      ng_viewer +jsonl_fpath={shlex.quote(output)}"


def refuse_unsafe_output(paths: RolloutPaths, settings: RolloutSettings) -> None:
    """A file that no run of ours is beside is somebody's, and is not written to.

    Raises RefusedError.
    """
    source = settings.input_jsonl_fpath.resolve()
    if any(source == path.resolve() for path in paths.derived):
        raise SettingsError(
            f"the input {settings.input_jsonl_fpath} is a file that this collection would write: "
            "give +output_jsonl_fpath another name"
        )
    for path in paths.derived:
        if path.exists() and not path.is_file():
            raise RefusedError(f"{path} is in the way: it is no file. Nothing was changed.")
        if settings.resume and not paths.run.exists() and path.exists() and path.stat().st_size:
            raise RefusedError(
                f"{path} exists, but {paths.run}, the run it would belong to, does not: nothing "
                "was changed. Give another +output_jsonl_fpath, or +resume=false to put the file "
                "aside and start anew."
            )


def announce(tasks: int, rollouts: int, paths: RolloutPaths, settings: RolloutSettings) -> None:
    counts = f"{many(tasks, 'task')}, {many(rollouts, 'rollout')}"
    part = f", of which shard {settings.shard}," if settings.shard else ""
    print(f"{counts}{part} into {shown(paths.output)}", file=sys.stderr)


def shown(path: Path) -> str:
    """As a person here would write it."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith(os.pardir) else relative
