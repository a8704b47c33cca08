"""Growing a run while it is collected: tasks are added at the end of its inputs.

The manifest is replaced first, with the number of tasks and the digest of the inputs as they will
be; then the lines are appended to the inputs and synced. Only after that may the tasks be collected
(see `opening`, which repairs the inputs where a process died in between). The digest continues, so
growing by a few tasks costs the same however many there are.
"""

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from rollgym.records import Task
from rollgym.store.disk import SYNC_TIMEOUT, Disk, sync_within, write_all
from rollgym.store.errors import InputsError, StorageError, storage_errors
from rollgym.store.inputs import Inputs, Materialised, encode_task
from rollgym.store.manifest import InputsIdentity, Manifest, replace_manifest


class Growth:
    """Adds tasks to an open run that one process collects as a whole."""

    def __init__(
        self,
        directory: Path,
        manifest: Manifest,
        inputs: Inputs,
        materialised: Materialised,
        disk: Disk,
    ) -> None:
        self.manifest = manifest
        self._directory = directory
        self._inputs = inputs
        self._digest = materialised.digest.copy()
        self._disk = disk
        self._broken = False

    async def add(self, tasks: Sequence[Task]) -> None:
        """Add tasks; on return they are on disk and synced.

        Raises InputsError for an index that the run has already, StorageError. After a
        StorageError the run must be opened again.
        """
        if self._broken:
            raise StorageError(f"{self._directory}: the inputs could not be written; open it again")
        indexes = {task.index for task in tasks}
        if len(indexes) < len(tasks) or any(map(self._inputs.holds, indexes)):
            raise InputsError(f"{self._directory}: a task that was added has an index of another")
        lines = b"".join(map(encode_task, tasks))
        self._broken = True
        self._digest.update(lines)
        self.manifest = self._grown(tasks)
        await replace_manifest(self._directory, self.manifest, self._disk)
        await self._append(lines)
        for task in tasks:
            self._inputs.add(task)
        self._broken = False

    def _grown(self, tasks: Sequence[Task]) -> Manifest:
        identity = self.manifest.identity
        before = identity.inputs
        inputs = InputsIdentity(
            before.tasks + len(tasks),
            before.rollouts + sum(task.repeats for task in tasks),
            self._digest.hexdigest(),
        )
        return msgspec.structs.replace(
            self.manifest, identity=msgspec.structs.replace(identity, inputs=inputs)
        )

    async def _append(self, lines: bytes) -> None:
        """Raises StorageError."""
        path = self._inputs.path
        with storage_errors(path, "adding to the inputs"):
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
            try:
                write_all(self._disk, descriptor, lines)
                await sync_within(self._disk, descriptor, path, SYNC_TIMEOUT)
            finally:
                os.close(descriptor)
