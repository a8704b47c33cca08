"""A run on disk, opened for collecting.

```
<directory>/
  manifest.json           the run's identity
  inputs.jsonl            its materialised inputs
  journal.jsonl           its records; a shard writes journal-<i>-of-<n>.jsonl
  control.jsonl           what was changed while a collection ran, if anything was
  blobs/                  large payloads, by content
```

*Resuming.* Every journal of the run is read, also those of other shards. A rollout that has an
outcome does not run again. A run can be given more tasks and repeats than it has, when it is opened
(see `opening`), and more tasks while it is collected (see `growth`).
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from rollgym.closing import Closable
from rollgym.records import Attempt, RecordState, Task, encode_and_read
from rollgym.store.blobs import BlobStore
from rollgym.store.control_log import ControlLog
from rollgym.store.disk import Disk, sync_path
from rollgym.store.errors import storage_errors
from rollgym.store.growth import Growth
from rollgym.store.inputs import Inputs
from rollgym.store.journal import GroupCommit, Journal, SyncPolicy, TornTail
from rollgym.store.layout import (
    BLOBS,
    WHOLE,
    Shard,
    control_path,
    control_paths,
    journal_path,
    journal_paths,
)
from rollgym.store.manifest import DEFAULT_ADVICE, InputsIdentity, Manifest, OpenAdvice
from rollgym.store.opening import RunOpening
from rollgym.store.progress import Progress, Status
from rollgym.store.reader import run_records

Replay = Callable[[Attempt, RecordState], None]


class AppendedRecord(NamedTuple):
    """A record as it is, or will be, read from the journal."""

    attempt: Attempt
    offset: int
    size: int


class RunStore(Closable):
    """An open run: a collection reads its tasks from it and writes its records to it.

    `commit` writes and syncs the records. Await its `keep_pace` after each, and call its `write`
    after those that were added together.
    """

    def __init__(
        self,
        *,
        directory: Path,
        inputs: Inputs,
        progress: Progress,
        journal: Journal,
        commit: GroupCommit,
        control_log: ControlLog,
        locks: ExitStack,
        disk: Disk,
        growth: Growth,
        shard: Shard = WHOLE,
        grown_from: InputsIdentity | None = None,
    ) -> None:
        """`grown_from` are the earlier inputs of a run that was just given more."""
        self.directory = directory
        self.inputs = inputs
        self.disk = disk
        self.progress = progress
        self.grown_from = grown_from
        self.blobs = BlobStore(directory / BLOBS, disk)
        self._journal = journal
        self._growth = growth
        self._shard = shard
        self.commit = commit
        self.control_log = control_log
        self._locks = locks
        self._claimed = False

    @property
    def manifest(self) -> Manifest:
        return self._growth.manifest

    @property
    def seed(self) -> int:
        return self.manifest.identity.seed

    @property
    def torn(self) -> TornTail | None:
        """The unfinished record that opening removed, if there was one."""
        return self._journal.torn

    @property
    def journal_path(self) -> Path:
        return self._journal.path

    def claim(self) -> None:
        """Mark the store as used by a collection. Raises RuntimeError the second time."""
        if self._claimed:
            raise RuntimeError(
                f"this store of {self.directory} has already been used for a collection: open the "
                "run again to continue it"
            )
        self._claimed = True

    def append(self, attempt: Attempt) -> AppendedRecord:
        """Write a record. Raises RecordError, StorageError."""
        added = self.add(attempt)
        self.commit.write()
        return added

    def add(self, attempt: Attempt) -> AppendedRecord:
        """Add a record, which `commit.write` writes. Raises RecordError, StorageError."""
        return self.add_line(*encode_and_read(attempt))

    def add_line(self, line: bytes, attempt: Attempt) -> AppendedRecord:
        """Add the line of a record that was read from it. Raises StorageError."""
        return AppendedRecord(attempt, self.commit.add(line), len(line))

    async def grow(self, tasks: Sequence[Task]) -> None:
        """Give the run further tasks while it is collected. On return they are synced.

        Raises InputsError for an index that the run has already, StorageError, and ValueError for a
        shard.
        """
        if self._shard != WHOLE:
            raise ValueError(f"{self.directory} is open as shard {self._shard}, which cannot grow")
        await self._growth.add(tasks)

    def close(self) -> None:
        """Release files and locks. Does not flush."""
        self._locks.close()


def open_run(
    directory: Path,
    tasks: Iterable[Task],
    *,
    config: Mapping[str, Any] | None = None,
    seed: int = 0,
    shard: Shard = WHOLE,
    sync: SyncPolicy | None = None,
    reopen: Collection[Status] = (),
    force_new_run: bool = False,
    replay: Replay | None = None,
    advice: OpenAdvice = DEFAULT_ADVICE,
    disk: Disk | None = None,
) -> RunStore:
    """Make a run, or continue an existing one.

    `tasks` is iterated once, here; the run keeps its own copy. An existing run may be given further
    tasks after its own, and more repeats of them; it keeps its outcomes. `config` (as far as it
    belongs to the identity, see `settings`) and `seed` complete the identity. `reopen` names
    outcomes to run again. `force_new_run` renames an existing run to `<directory>.previous-<n>` and
    starts a new one. `replay` is called with each existing record of its tasks. `advice` ends the
    messages of a run that is not opened, in terms of the caller's own options.

    Raises RefusedError (another identity, another writer, a corrupt journal, unusable inputs) and
    StorageError.
    """
    # Resolved once: a link or a relative path must mean the same place after a rename.
    directory, disk = directory.resolve(), disk or Disk()
    with ExitStack() as stack:
        opening = RunOpening(directory, shard, disk, advice)
        inputs, growth = opening.open(
            tasks, config or {}, seed, force_new_run=force_new_run, locks=stack
        )
        progress = Progress(reopen)
        # Before the journal is opened for writing: a corrupt one must stay unchanged.
        for entry, current in run_records(directory):
            if not inputs.holds(entry.attempt.task):
                continue
            state = progress.note(entry.attempt, current=current)
            if replay:
                replay(entry.attempt, state)
        journal = Journal(journal_path(directory, shard), disk)
        stack.callback(journal.close)
        control_log = stack.enter_context(ControlLog(control_path(directory, shard), disk))
        _sync_logs(directory, disk)
        commit = GroupCommit(journal, sync or SyncPolicy())
        return RunStore(
            directory=directory,
            inputs=inputs,
            progress=progress,
            journal=journal,
            commit=commit,
            control_log=control_log,
            locks=stack.pop_all(),
            disk=disk,
            growth=growth,
            shard=shard,
            grown_from=opening.grown_from,
        )


def _sync_logs(directory: Path, disk: Disk) -> None:
    """Sync what all shards have: a killed process may have left it unsynced."""
    for path in (*journal_paths(directory), *control_paths(directory)):
        with storage_errors(path, "syncing a log of the run"):
            sync_path(disk, path)
