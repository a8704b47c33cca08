"""Opening a run: checking its identity and acquiring its locks.

*Identity.* The inputs are written to a draft first. A new run keeps it; an existing one must have
been made from the same inputs, seed and result-relevant configuration.

*Growing.* A run may be given more inputs than it has: further tasks at the end, and more repeats.
Then the manifest is replaced first and the inputs after it, while no other process collects the
run. A process that died in between leaves a manifest with more tasks than the inputs, of which
nothing has been collected, and the next opening replaces the inputs. A run that is collected as a
whole can also grow meanwhile (see `growth`), in the same order.

*Locks.* A process that collects the whole run holds the run's lock exclusively. A shard shares the
run's lock and holds its own shard's lock; shards of different divisions exclude each other, because
they would overlap. A third lock, held briefly, serialises the opening itself.
"""

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from rollgym.records import Task
from rollgym.store.disk import Disk, FileLock, make_directory, sync_path
from rollgym.store.errors import (
    InputsError,
    ManifestError,
    RunBusyError,
    storage_error,
    storage_errors,
)
from rollgym.store.growth import Growth
from rollgym.store.inputs import (
    Change,
    Inputs,
    InputsChange,
    InputsDraft,
    compare_inputs,
)
from rollgym.store.layout import (
    INPUTS,
    MANIFEST,
    OPENING_LOCK,
    RUN_LOCK,
    WHOLE,
    Shard,
    journal_paths,
    shard_lock_path,
    shard_locks,
)
from rollgym.store.manifest import (
    Identity,
    InputsIdentity,
    Manifest,
    OpenAdvice,
    read_manifest,
    require_same,
    write_manifest,
)
from rollgym.store.settings import settings_identity


class RunOpening:
    """The steps of opening one run."""

    def __init__(self, directory: Path, shard: Shard, disk: Disk, advice: OpenAdvice) -> None:
        self._directory = directory
        self._shard = shard
        self._disk = disk
        self._advice = advice
        self.grown_from: InputsIdentity | None = None
        """The earlier inputs of a run that was given more."""

    def open(
        self,
        tasks: Iterable[Task],
        config: Mapping[str, Any],
        seed: int,
        *,
        force_new_run: bool,
        locks: ExitStack,
    ) -> tuple[Inputs, Growth]:
        """Make the run or check that it is the same one, and add its locks to `locks`.

        Raises RefusedError, StorageError.
        """
        with ExitStack() as opening:
            self._make_directory()
            draft = InputsDraft(self._directory, self._disk)
            opening.callback(draft.close)
            found = draft.write(tasks, self._shard)
            settings = settings_identity(config)
            left_out = tuple(sorted(settings.left_out))
            identity = Identity(found.identity, settings.values, seed, left_out)
            self._acquire_opening_lock(opening)
            if not draft.path.exists():
                raise RunBusyError(
                    f"another process has just renamed {self._directory} to start a new run: run "
                    "the same command again"
                )
            manifest_path = self._directory / MANIFEST
            if force_new_run and (manifest_path.exists() or journal_paths(self._directory)):
                draft.path = self._rename_old_run() / draft.path.name
                self._make_directory()
                self._acquire_opening_lock(opening)
            manifest = self._same_run(identity, draft)
            self._acquire_run_locks(locks)
        inputs = Inputs(self._directory / INPUTS, self._shard, found)
        return inputs, Growth(self._directory, manifest, inputs, found, self._disk)

    def _make_directory(self) -> None:
        with storage_errors(self._directory, "making the directory"):
            make_directory(self._disk, self._directory)

    def _acquire_opening_lock(self, opening: ExitStack) -> None:
        lock = FileLock(self._directory / OPENING_LOCK)
        lock.acquire(f"the opening of {self._directory}")
        opening.callback(lock.release)

    def _same_run(self, identity: Identity, draft: InputsDraft) -> Manifest:
        manifest = read_manifest(self._directory, self._advice)
        if manifest is None:
            return self._make_run(identity, draft)
        inputs, present = self._directory / INPUTS, manifest.identity.inputs
        with storage_errors(inputs, "comparing the inputs"):
            known = inputs.exists()
            found = compare_inputs(inputs, draft.path) if known else InputsChange(Change.SAME)
        has_all = identity.inputs.tasks >= present.tasks
        has_all = has_all and identity.inputs.rollouts >= present.rollouts
        grows = found.change is Change.GROWN and has_all
        asked = msgspec.structs.replace(identity, inputs=present) if grows else identity
        hint = _difference(found, inputs) if present != identity.inputs and known else ""
        require_same(self._directory, manifest, asked, self._advice, hint)
        if grows:
            manifest = self._grow(manifest, identity, draft, repeats=found.repeats)
        elif found.change is not Change.SAME:
            raise InputsError(
                f"{inputs}:{found.line}: this line was changed after the run was made. Restore the "
                "file, or delete it to write it again from the given inputs."
            )
        elif not known:
            draft.keep(inputs)
        # The process that made the run may have died before it synced the directory, and a
        # journal must not survive without its manifest.
        with storage_errors(self._directory, "syncing the manifest"):
            sync_path(self._disk, self._directory)
        return manifest

    def _grow(
        self, manifest: Manifest, identity: Identity, draft: InputsDraft, *, repeats: bool
    ) -> Manifest:
        """Give the run its further inputs. Raises RunBusyError, StorageError."""
        lock = FileLock(self._directory / RUN_LOCK)
        if not lock.try_acquire():
            raise RunBusyError(
                f"{self._busy()} It cannot be given more inputs while another process collects it."
            )
        try:
            before, after = manifest.identity.inputs, identity.inputs
            if before != after:
                self.grown_from = before
                manifest = msgspec.structs.replace(
                    manifest,
                    identity=msgspec.structs.replace(manifest.identity, inputs=after),
                    repeats_grown=manifest.repeats_grown or repeats,
                )
                write_manifest(self._directory, manifest, self._disk)
            draft.keep(self._directory / INPUTS)
        finally:
            lock.release()
        return manifest

    def _make_run(self, identity: Identity, draft: InputsDraft) -> Manifest:
        if journal_paths(self._directory):
            raise ManifestError(
                f"{self._directory} holds journals without a manifest, so the run they belong to "
                f"is unknown. Restore the manifest. Otherwise {self._advice.another_run}."
            )
        draft.keep(self._directory / INPUTS)
        manifest = Manifest.new(identity)
        write_manifest(self._directory, manifest, self._disk)
        return manifest

    def _acquire_run_locks(self, locks: ExitStack) -> None:
        whole = self._shard == WHOLE
        run_lock = FileLock(self._directory / RUN_LOCK, shared=not whole)
        if not run_lock.try_acquire():
            raise self._busy()
        locks.callback(run_lock.release)
        if whole:
            return
        shard_lock = FileLock(shard_lock_path(self._directory, self._shard))
        if not shard_lock.try_acquire():
            raise RunBusyError(
                f"shard {self._shard} of {self._directory} is being collected by "
                f"{shard_lock.holder()}: wait for it or stop it"
            )
        locks.callback(shard_lock.release)
        for path, shard in shard_locks(self._directory).items():
            if shard.count != self._shard.count and FileLock(path).is_held():
                raise RunBusyError(
                    f"{self._directory} is being collected in {shard.count} shards, which overlap "
                    f"with shard {self._shard}: wait for {FileLock(path).holder()} or stop it"
                )

    def _busy(self) -> RunBusyError:
        """The error for a run whose lock is held by shards or by the writer of the whole run."""
        for path, shard in shard_locks(self._directory).items():
            lock = FileLock(path)
            if lock.is_held():
                return RunBusyError(
                    f"shard {shard} of {self._directory} is being collected by {lock.holder()}: "
                    "wait for it or stop it, or collect another shard of this division"
                )
        holder = FileLock(self._directory / RUN_LOCK).holder()
        return RunBusyError(
            f"{self._directory} is being collected as a whole by {holder}: wait for it or stop it. "
            f"{self._advice.sharing}"
        )

    def _rename_old_run(self) -> Path:
        """Rename the directory; return its new path. Raises RunBusyError, StorageError."""
        lock = FileLock(self._directory / RUN_LOCK)
        if not lock.try_acquire():
            raise self._busy()
        try:
            previous = f"{self._directory.name}.previous-"
            names = (self._directory.with_name(f"{previous}{number}") for number in count(1))
            renamed = next(path for path in names if not path.exists())
            self._disk.replace(self._directory, renamed)
            sync_path(self._disk, renamed.parent)
        except OSError as error:
            raise storage_error(error, self._directory, "renaming the old run") from error
        finally:
            lock.release()
        return renamed


def _difference(found: InputsChange, inputs: Path) -> str:
    """A line about inputs that a run cannot continue with."""
    if found.change is Change.SHRUNK:
        return (
            "inputs: a run can be given more rows and more repeats, but not fewer; the first "
            f"difference is in line {found.line} of {inputs}"
        )
    if found.change is Change.SAME:
        return ""
    return f"inputs: the first difference is in line {found.line} of {inputs}"
