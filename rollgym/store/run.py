"""A run on disk, opened for collecting.

```
<directory>/
  manifest.json           the run's identity
  inputs.jsonl            its materialised inputs
  journal.jsonl           its records; a shard writes journal-<i>-of-<n>.jsonl
  blobs/                  large payloads, by content
```

*Locks.* A process that collects the whole run holds the run's lock exclusively. A declared shard
shares it and holds its own shard's lock; shards of different divisions exclude each other, because
they would overlap. Deciding all this happens under a third lock, held for moments.

*Resuming.* Every journal of the run is read, whoever wrote it; what has an outcome does not run.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rollgym.records import Attempt, Standing, Task, encode_attempt
from rollgym.store.blobs import BlobStore
from rollgym.store.commit import GroupCommit, SyncPolicy
from rollgym.store.disk import Disk, sync_path
from rollgym.store.errors import ManifestError, RunBusyError, storage_error
from rollgym.store.identity import Identity, result_relevant
from rollgym.store.inputs import (
    INPUTS,
    WHOLE,
    Inputs,
    Shard,
    first_difference,
    materialise,
    temporary_inputs,
)
from rollgym.store.journal import Journal, TornTail
from rollgym.store.lock import FileLock
from rollgym.store.manifest import Manifest, read_manifest, require_same, write_manifest
from rollgym.store.progress import Progress, Status
from rollgym.store.reader import read_standing

BLOBS = "blobs"
_SHARD_LOCK = re.compile(r"\.journal-\d+-of-(\d+)\.lock")

Replay = Callable[[Attempt, Standing], None]


def journal_paths(directory: Path) -> list[Path]:
    """Every journal of a run, whole and of shards."""
    return sorted(directory.glob("journal*.jsonl"))


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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
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
    disk: Disk | None = None,
) -> RunStore:
    """Make a run, or continue the one that is there.

    `tasks` is iterated once, here; the run keeps its own copy. `config` (less what `irrelevant`
    names, see `identity`) and `seed` complete the identity. `reopen` names outcomes to run again.
    `force_new_run` puts an existing run aside as `<directory>.previous-<n>` and starts anew.
    `replay` is called with each record of its tasks that the run holds already.

    Raises RefusedError (another identity, another writer, a corrupt journal, unusable inputs) and
    StorageError.
    """
    opener = _Opener(directory, shard, disk or Disk(), force_new_run=force_new_run)
    with ExitStack() as stack:
        manifest, inputs = opener.prepare(tasks, config or {}, irrelevant, seed, stack)
        journal = Journal(directory / f"journal{_suffix(shard)}.jsonl", opener.disk)
        stack.callback(journal.close)
        progress = Progress(reopen)
        for entry, stands in read_standing(journal_paths(directory)):
            if not inputs.holds(entry.attempt.task):
                continue
            reopened = progress.note(entry.attempt, stands=stands)
            if replay:
                replay(entry.attempt, Standing.of(stands=stands, reopened=reopened))
        _sync_journals(directory, opener.disk)
        commit = GroupCommit(journal, sync or SyncPolicy())
        return RunStore(
            directory=directory,
            manifest=manifest,
            inputs=inputs,
            progress=progress,
            journal=journal,
            commit=commit,
            locks=stack.pop_all(),
            disk=opener.disk,
        )


def _sync_journals(directory: Path, disk: Disk) -> None:
    """Make last what was read: a killed process may have left records it had not synced."""
    for path in journal_paths(directory):
        try:
            sync_path(disk, path)
        except OSError as error:
            raise storage_error(error, path, "syncing the journal") from error


def _suffix(shard: Shard) -> str:
    return "" if shard == WHOLE else f"-{shard.index}-of-{shard.count}"


class _Opener:
    """The steps of opening, under the opening lock."""

    def __init__(self, directory: Path, shard: Shard, disk: Disk, *, force_new_run: bool) -> None:
        self.directory = directory
        self.shard = shard
        self.disk = disk
        self.force_new_run = force_new_run

    def prepare(
        self,
        tasks: Iterable[Task],
        config: Mapping[str, Any],
        irrelevant: Collection[str],
        seed: int,
        stack: ExitStack,
    ) -> tuple[Manifest, Inputs]:
        """Materialise the inputs, settle which run this is, and take its locks onto `stack`."""
        self._make_directory()
        temporary = temporary_inputs(self.directory)
        try:
            found = materialise(tasks, temporary, self.shard, self.disk)
            identity = Identity(found.identity, result_relevant(config, irrelevant), seed)
            with ExitStack() as opening:
                self._take_opening_lock(opening)
                if self.force_new_run and read_manifest(self.directory):
                    temporary = self._put_aside() / temporary.name
                    self._make_directory()
                    self._take_opening_lock(opening)
                manifest = self._settle(identity, temporary)
                self._take_run_locks(stack)
        finally:
            temporary.unlink(missing_ok=True)
        return manifest, Inputs(self.directory / INPUTS, self.shard, found)

    def _make_directory(self) -> None:
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise storage_error(error, self.directory, "making the directory") from error

    def _take_opening_lock(self, stack: ExitStack) -> None:
        lock = FileLock(self.directory / ".opening.lock")
        lock.acquire_soon(f"the opening of {self.directory}")
        stack.callback(lock.release)

    def _settle(self, identity: Identity, temporary: Path) -> Manifest:
        manifest = read_manifest(self.directory)
        inputs = self.directory / INPUTS
        if manifest is None:
            if journal_paths(self.directory):
                raise ManifestError(
                    f"{self.directory} holds journals without a manifest, so it cannot be told "
                    "which run they are of: restore the manifest or choose another directory"
                )
            try:
                self.disk.replace(temporary, inputs)
                sync_path(self.disk, self.directory)
            except OSError as error:
                raise storage_error(error, inputs, "keeping the inputs") from error
            manifest = Manifest.new(identity)
            write_manifest(self.directory, manifest, self.disk)
            return manifest
        hint = ""
        if manifest.identity.inputs != identity.inputs and inputs.exists():
            line = first_difference(inputs, temporary)
            hint = f"inputs: the first difference is at task {line} of {inputs}"
        require_same(self.directory, manifest, identity, hint)
        # Whoever made the run may have died before its names lasted, and a journal must not
        # outlive the manifest it belongs to.
        try:
            sync_path(self.disk, self.directory)
        except OSError as error:
            raise storage_error(error, self.directory, "keeping the manifest") from error
        return manifest

    def _take_run_locks(self, stack: ExitStack) -> None:
        whole = self.shard == WHOLE
        run_lock = FileLock(self.directory / ".run.lock", shared=not whole)
        run_lock.acquire(str(self.directory))
        stack.callback(run_lock.release)
        if whole:
            return
        shard_lock = FileLock(self.directory / f".journal{_suffix(self.shard)}.lock")
        shard_lock.acquire(f"shard {self.shard.index}/{self.shard.count} of {self.directory}")
        stack.callback(shard_lock.release)
        self._refuse_other_divisions()

    def _refuse_other_divisions(self) -> None:
        for path in sorted(self.directory.iterdir()):
            match = _SHARD_LOCK.fullmatch(path.name)
            if match and int(match[1]) != self.shard.count:
                other = FileLock(path)
                if not other.try_acquire():
                    raise RunBusyError(
                        f"{self.directory} is being collected in {match[1]} shards, which overlap "
                        f"with {self.shard.count}: wait for {other.holder()}"
                    )
                other.release()

    def _put_aside(self) -> Path:
        with ExitStack() as stack:
            busy = FileLock(self.directory / ".run.lock")
            busy.acquire(str(self.directory))
            stack.callback(busy.release)
            number = 1
            while (aside := self._aside(number)).exists():
                number += 1
            try:
                self.disk.replace(self.directory, aside)
            except OSError as error:
                raise storage_error(error, self.directory, "putting the old run aside") from error
            return aside

    def _aside(self, number: int) -> Path:
        return self.directory.with_name(f"{self.directory.name}.previous-{number}")
