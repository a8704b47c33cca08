"""A run on disk, opened for collecting.

```
<directory>/
  manifest.json           the run's identity
  inputs.jsonl            its materialised inputs
  journal.jsonl           its records; a shard writes journal-<i>-of-<n>.jsonl
  blobs/                  large payloads, by content
```

*Resuming.* Every journal of the run is read, whoever wrote it; what has an outcome does not run.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from rollgym.records import Attempt, Standing, Task, encode_attempt
from rollgym.store.blobs import BlobStore
from rollgym.store.commit import GroupCommit, SyncPolicy
from rollgym.store.disk import Disk, sync_path
from rollgym.store.errors import storage_error
from rollgym.store.inputs import Inputs
from rollgym.store.journal import Journal, TornTail
from rollgym.store.layout import BLOBS, journal_path, journal_paths
from rollgym.store.manifest import DEFAULT_ADVICE, Manifest, OpenAdvice
from rollgym.store.opening import Opening
from rollgym.store.progress import Progress, Status
from rollgym.store.reader import read_standing
from rollgym.store.shard import WHOLE, Shard

Replay = Callable[[Attempt, Standing], None]


class RunStore:
    """An open run: where a collection reads its tasks and leaves its records."""

    def __init__(
        self,
        *,
        directory: Path,
        manifest: Manifest,
        inputs: Inputs,
        progress: Progress,
        journal: Journal,
        commit: GroupCommit,
        locks: ExitStack,
        disk: Disk,
    ) -> None:
        self.directory = directory
        self.manifest = manifest
        self.inputs = inputs
        self.progress = progress
        self.blobs = BlobStore(directory / BLOBS, disk)
        self._journal = journal
        self._commit = commit
        self._locks = locks
        self._claimed = False

    @property
    def seed(self) -> int:
        return self.manifest.identity.seed

    @property
    def torn(self) -> TornTail | None:
        """The unfinished record that opening cut off, if there was one."""
        return self._journal.torn

    @property
    def journal_path(self) -> Path:
        return self._journal.path

    def claim(self) -> None:
        """Begin collecting. Raises RuntimeError the second time.

        What a collection adds is not in `progress`, so another would run it all again.
        """
        if self._claimed:
            raise RuntimeError(
                f"{self.directory} has been collected through this store already: open the run "
                "again to continue it"
            )
        self._claimed = True

    def append(self, attempt: Attempt) -> int:
        """Write a record; returns its offset. Raises RecordError, StorageError."""
        return self._commit.append(encode_attempt(attempt))

    async def keep_pace(self) -> None:
        """To be awaited after every append, so that the unsynced records stay bounded."""
        await self._commit.keep_pace()

    def on_durable(self, acknowledge: Callable[[int], None]) -> None:
        """Call back with how many further records, in the order of `append`, now last."""
        self._commit.on_durable(acknowledge)

    async def keep_synced(self) -> None:
        """The background service that makes appended records last. Raises StorageError."""
        await self._commit.run()

    async def flush(self) -> None:
        """Make every appended record last now. Raises StorageError."""
        await self._commit.flush()

    def close(self) -> None:
        """Release files and locks. Does not flush."""
        self._locks.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_run(
    directory: Path,
    tasks: Iterable[Task],
    *,
    config: Mapping[str, Any] | None = None,
    irrelevant: Collection[str] = (),
    seed: int = 0,
    shard: Shard = WHOLE,
    sync: SyncPolicy | None = None,
    reopen: Collection[Status] = (),
    force_new_run: bool = False,
    replay: Replay | None = None,
    advice: OpenAdvice = DEFAULT_ADVICE,
    disk: Disk | None = None,
) -> RunStore:
    """Make a run, or continue the one that is there.

    `tasks` is iterated once, here; the run keeps its own copy. `config` (less what `irrelevant`
    names, see `identity`) and `seed` complete the identity. `reopen` names outcomes to run again.
    `force_new_run` puts an existing run aside as `<directory>.previous-<n>` and starts anew.
    `replay` is called with each record of its tasks that the run holds already. `advice` ends the
    messages of a run that is not opened, in terms of the caller's own options.

    Raises RefusedError (another identity, another writer, a corrupt journal, unusable inputs) and
    StorageError.
    """
    # Resolved once: a link, or the present directory, means the same place after it is put aside.
    directory, disk = directory.resolve(), disk or Disk()
    with ExitStack() as stack:
        manifest, inputs = Opening(directory, shard, disk, advice).open(
            tasks, config or {}, irrelevant, seed, force_new_run=force_new_run, locks=stack
        )
        progress = Progress(reopen)
        # Before the journal is opened for writing: a corrupt one must be left as it is.
        for entry, stands in read_standing(journal_paths(directory)):
            if not inputs.holds(entry.attempt.task):
                continue
            reopened = progress.note(entry.attempt, stands=stands)
            if replay:
                replay(entry.attempt, Standing.of(stands=stands, reopened=reopened))
        journal = Journal(journal_path(directory, shard), disk)
        stack.callback(journal.close)
        _sync_journals(directory, disk)
        commit = GroupCommit(journal, sync or SyncPolicy())
        return RunStore(
            directory=directory,
            manifest=manifest,
            inputs=inputs,
            progress=progress,
            journal=journal,
            commit=commit,
            locks=stack.pop_all(),
            disk=disk,
        )


def _sync_journals(directory: Path, disk: Disk) -> None:
    """Make last what was read: a killed process may have left records it had not synced."""
    for path in journal_paths(directory):
        try:
            sync_path(disk, path)
        except OSError as error:
            raise storage_error(error, path, "syncing the journal") from error
