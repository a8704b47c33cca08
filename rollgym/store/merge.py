"""Merging the journals of shards and copies of one run into one.

The result depends only on the records, not on the number or order of the journals: records are
sorted by task, repeat and attempt, duplicates are kept once, and of several completed records of
one rollout the current one is kept (see `reader`). The others go to `superseded.jsonl` beside the
merged journal, so that nothing is lost. Lines are copied as bytes. An unfinished last line of a
killed writer is left out and counted.

Records are sorted in a temporary SQLite file that holds the positions of lines, not the lines.
"""

import shutil
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

import msgspec

from rollgym.records import Completed, RolloutKey
from rollgym.store.disk import Disk, make_directory, sync_path
from rollgym.store.errors import (
    IdentityError,
    ManifestError,
    RefusedError,
    StorageError,
    storage_error,
    storage_errors,
)
from rollgym.store.inputs import Change, InputsChange, compare_inputs
from rollgym.store.layout import BLOBS, INPUTS, MANIFEST, WHOLE, journal_path, journal_paths
from rollgym.store.manifest import Manifest, differences, read_manifest, write_manifest
from rollgym.store.reader import read_journal

SUPERSEDED = "superseded.jsonl"
_LATE = 1 << 62


class MergeReport(msgspec.Struct, frozen=True):
    """The counts of a merge."""

    journals: int
    records: int
    duplicates: int
    conflicts: int
    torn: int

    def __str__(self) -> str:
        return (
            f"{self.records} records from {self.journals} journal(s); {self.duplicates} "
            f"duplicates left out, {self.conflicts} further completions moved to {SUPERSEDED}, "
            f"{self.torn} unfinished last lines left out"
        )


def merge_runs(sources: Sequence[Path], target: Path) -> MergeReport:
    """Merge run directories (with all the shards in each) into a new one.

    The target appears complete or not at all. Raises StorageError, and RefusedError when the
    directories hold no run or different runs, or when `target` exists already.
    """
    if target.exists():
        raise RefusedError(f"{target} exists already: give a new directory to merge into")
    largest, manifest = _one_run(sources)
    # An earlier merge may have superseded records beside the journal.
    journals = [
        path for source in sources for path in (*journal_paths(source), *source.glob(SUPERSEDED))
    ]
    try:
        make_directory(Disk(), target.parent)
        with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as scratch:
            unfinished = Path(scratch) / "run"
            unfinished.mkdir()
            with closing(sqlite3.connect(Path(scratch) / "index.sqlite")) as index:
                report = _merge_journals(journals, unfinished, index)
            # After the journals, so that every blob they name exists even if the run is growing.
            _copy_files(sources, largest, unfinished)
            write_manifest(unfinished, manifest, Disk())
            _sync_all(unfinished)
            unfinished.replace(target)
        sync_path(Disk(), target.parent)
    except OSError as error:
        raise storage_error(error, target, "merging") from error
    except sqlite3.Error as error:
        raise StorageError(f"{target}: {error} while merging") from error
    return report


def _copy_files(sources: Sequence[Path], largest: Path, target: Path) -> None:
    with storage_errors(largest / INPUTS, "merging"):
        shutil.copyfile(largest / INPUTS, target / INPUTS)
    unfinished_blobs = shutil.ignore_patterns("*.tmp")
    for source in sources:
        if (source / BLOBS).is_dir():
            shutil.copytree(
                source / BLOBS, target / BLOBS, ignore=unfinished_blobs, dirs_exist_ok=True
            )


def _sync_all(directory: Path) -> None:
    """Sync everything below a directory, because users delete the sources after a merge."""
    for path in (*directory.rglob("*"), directory):
        sync_path(Disk(), path)


def _one_run(sources: Sequence[Path]) -> tuple[Path, Manifest]:
    """The source with the most inputs, and the manifest of the merged run.

    A copy of a run may have been given more inputs than the others. Raises RefusedError.
    """
    manifests = {source: _required_manifest(source) for source in sources}
    if not manifests:
        raise RefusedError("there is nothing to merge: give at least one run directory")
    largest = max(manifests, key=lambda source: _size(manifests[source]))
    merged = manifests[largest]
    for source, manifest in manifests.items():
        found = InputsChange(Change.SAME)
        if manifest.identity.inputs != merged.identity.inputs:
            with storage_errors(source / INPUTS, "merging"):
                found = compare_inputs(source / INPUTS, largest / INPUTS)
        compared = manifest.identity
        if found.change is Change.GROWN:
            compared = msgspec.structs.replace(compared, inputs=merged.identity.inputs)
        here, there = f"in {largest}", f"in {source}"
        if lines := differences(merged.identity, compared, here, there):
            raise IdentityError("\n  ".join(["the directories hold different runs:", *lines]))
        if manifest.repeats_grown or found.repeats:
            merged = msgspec.structs.replace(merged, repeats_grown=True)
    return largest, merged


def _required_manifest(source: Path) -> Manifest:
    manifest = read_manifest(source)
    if manifest is None:
        raise ManifestError(f"{source} holds no run: {MANIFEST} is missing")
    return manifest


def _size(manifest: Manifest) -> tuple[int, int]:
    inputs = manifest.identity.inputs
    return inputs.rollouts, inputs.tasks


def _merge_journals(journals: list[Path], target: Path, index: sqlite3.Connection) -> MergeReport:
    total, torn = _index_lines(index, journals)
    records = conflicts = distinct = 0
    with ExitStack() as stack:
        files = [stack.enter_context(path.open("rb")) for path in journals]
        merged = stack.enter_context(journal_path(target, WHOLE).open("wb"))
        others: BinaryIO | None = None
        completed: RolloutKey | None = None
        for key, is_completed, position in _sorted(index):
            distinct += 1
            file, offset, size = position
            files[file].seek(offset)
            line = files[file].read(size)
            if is_completed and completed == key:
                others = others or stack.enter_context((target / SUPERSEDED).open("wb"))
                others.write(line)
                conflicts += 1
                continue
            merged.write(line)
            records += 1
            if is_completed:
                completed = key
    return MergeReport(len(journals), records, total - distinct, conflicts, torn)


def _index_lines(index: sqlite3.Connection, journals: Iterable[Path]) -> tuple[int, int]:
    """Index every line; identical lines become one row.

    Returns the number of lines, and the number of journals that end in an unfinished one.
    """
    index.execute("PRAGMA journal_mode = OFF")
    index.execute("PRAGMA synchronous = OFF")
    index.execute(
        "CREATE TABLE line (digest BLOB PRIMARY KEY, task INTEGER, repeat INTEGER, "
        "rank INTEGER, completed INTEGER, file INTEGER, start INTEGER, size INTEGER) "
        "WITHOUT ROWID"
    )
    total = torn = 0

    def rows() -> Iterator[tuple[bytes, int, int, int, bool, int, int, int]]:
        nonlocal total, torn
        for number, path in enumerate(journals):
            size, end = path.stat().st_size, 0
            for entry in read_journal(path):
                total += 1
                end = entry.offset + len(entry.line)
                attempt = entry.attempt
                completed = attempt.final and isinstance(attempt.outcome, Completed)
                yield (
                    sha256(entry.line).digest(),
                    attempt.task,
                    attempt.repeat,
                    # The completed records of a rollout come last, the current one first.
                    _LATE - attempt.attempt if completed else attempt.attempt,
                    completed,
                    number,
                    entry.offset,
                    len(entry.line),
                )
            torn += end < size

    index.executemany("INSERT OR IGNORE INTO line VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows())
    return total, torn


def _sorted(
    index: sqlite3.Connection,
) -> Iterator[tuple[RolloutKey, bool, tuple[int, int, int]]]:
    ordered = index.execute(
        "SELECT task, repeat, completed, file, start, size FROM line "
        "ORDER BY task, repeat, rank, digest"
    )
    for task, repeat, completed, *position in ordered:
        file, start, size = position
        yield RolloutKey(task, repeat), bool(completed), (file, start, size)
