"""How a rollout lasts: the journal, the run's identity, blobs, readers and merging."""

from rollgym.store.blobs import BlobRef, BlobStore
from rollgym.store.commit import EVERY_RECORD, SyncPolicy
from rollgym.store.derived import DerivedFile, WriteLock, write_derived
from rollgym.store.disk import Disk
from rollgym.store.errors import (
    CorruptJournalError,
    DiskFullError,
    IdentityError,
    InputsError,
    ManifestError,
    RecordVersionError,
    RefusedError,
    RunBusyError,
    StorageDeniedError,
    StorageError,
    StorageVanishedError,
    StoreError,
)
from rollgym.store.identity import Identity, InputsIdentity, differences, result_relevant
from rollgym.store.inputs import Inputs, read_rows, read_tasks
from rollgym.store.journal import TornTail
from rollgym.store.keyset import KeySet
from rollgym.store.layout import inputs_path, journal_paths
from rollgym.store.lookup import RecordLookup, TaskLookup
from rollgym.store.manifest import Manifest, OpenAdvice, read_manifest
from rollgym.store.merge import MergeReport, merge_runs
from rollgym.store.progress import Prior, Progress, Status, status_of
from rollgym.store.reader import Entry, read_journal, read_standing
from rollgym.store.run import RunStore, open_run
from rollgym.store.shard import WHOLE, Shard

__all__ = [
    "EVERY_RECORD",
    "WHOLE",
    "BlobRef",
    "BlobStore",
    "CorruptJournalError",
    "DerivedFile",
    "Disk",
    "DiskFullError",
    "Entry",
    "Identity",
    "IdentityError",
    "Inputs",
    "InputsError",
    "InputsIdentity",
    "KeySet",
    "Manifest",
    "ManifestError",
    "MergeReport",
    "OpenAdvice",
    "Prior",
    "Progress",
    "RecordLookup",
    "RecordVersionError",
    "RefusedError",
    "RunBusyError",
    "RunStore",
    "Shard",
    "Status",
    "StorageDeniedError",
    "StorageError",
    "StorageVanishedError",
    "StoreError",
    "SyncPolicy",
    "TaskLookup",
    "TornTail",
    "WriteLock",
    "differences",
    "inputs_path",
    "journal_paths",
    "merge_runs",
    "open_run",
    "read_journal",
    "read_manifest",
    "read_rows",
    "read_standing",
    "read_tasks",
    "result_relevant",
    "status_of",
    "write_derived",
]
