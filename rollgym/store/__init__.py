"""How rollouts are stored: the journal, the run's identity, blobs, readers and merging."""

from rollgym.store.blobs import BlobRef, BlobStore
from rollgym.store.control_log import ControlChange, ControlLog, read_changes
from rollgym.store.derived import DerivedFile, WriteLock, write_derived
from rollgym.store.disk import Disk, FileLock
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
from rollgym.store.in_flight import EarlierDeath, InFlightMarks
from rollgym.store.inputs import Inputs, read_rows, read_tasks
from rollgym.store.journal import EVERY_RECORD, SyncPolicy
from rollgym.store.layout import WHOLE, Shard, inputs_path, journal_paths
from rollgym.store.manifest import (
    Identity,
    InputsIdentity,
    Manifest,
    OpenAdvice,
    differences,
    read_manifest,
)
from rollgym.store.merge import MergeReport, merge_runs
from rollgym.store.progress import KeySet, Progress, Status, cause_of, reduced, status_of
from rollgym.store.reader import (
    RecordLookup,
    TaskLookup,
    read_journal,
    read_records,
    run_records,
)
from rollgym.store.run import AppendedRecord, RunStore, open_run
from rollgym.store.settings import Setting, SettingsIdentity, hide_secrets, settings_identity

__all__ = [
    "EVERY_RECORD",
    "WHOLE",
    "AppendedRecord",
    "BlobRef",
    "BlobStore",
    "ControlChange",
    "ControlLog",
    "CorruptJournalError",
    "DerivedFile",
    "Disk",
    "DiskFullError",
    "EarlierDeath",
    "FileLock",
    "Identity",
    "IdentityError",
    "InFlightMarks",
    "Inputs",
    "InputsError",
    "InputsIdentity",
    "KeySet",
    "Manifest",
    "ManifestError",
    "MergeReport",
    "OpenAdvice",
    "Progress",
    "RecordLookup",
    "RecordVersionError",
    "RefusedError",
    "RunBusyError",
    "RunStore",
    "Setting",
    "SettingsIdentity",
    "Shard",
    "Status",
    "StorageDeniedError",
    "StorageError",
    "StorageVanishedError",
    "StoreError",
    "SyncPolicy",
    "TaskLookup",
    "WriteLock",
    "cause_of",
    "differences",
    "hide_secrets",
    "inputs_path",
    "journal_paths",
    "merge_runs",
    "open_run",
    "read_changes",
    "read_journal",
    "read_manifest",
    "read_records",
    "read_rows",
    "read_tasks",
    "reduced",
    "run_records",
    "settings_identity",
    "status_of",
    "write_derived",
]
