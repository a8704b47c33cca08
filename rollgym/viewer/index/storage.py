"""Where the database of an index is stored, and where it moves when a location fails.

The index of a file lies beside it, the index of a folder inside it. If that folder is not writable,
the index is stored in the user's cache, under a name made from the path. If that fails too, it is a
temporary file, and is built again the next time.

A broken index never prevents the viewer from showing rollouts: a damaged one is rebuilt at its
location once; after that, and where a location cannot be used, the next location is tried.
"""

import os
import sqlite3
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from rollgym.store.errors import StorageError, storage_errors
from rollgym.store.packages import user_cache
from rollgym.viewer.index.builder import relative_name
from rollgym.viewer.index.database import Database, identity_of, is_damage
from rollgym.viewer.source import ViewerSource

SUFFIX = ".rollgym-index"
_NAME = "index" + SUFFIX


def persistent_paths(source: ViewerSource) -> Iterator[Path]:
    """Paths that outlast the process, the best first. They may turn out not to be writable."""
    path = Path(os.path.abspath(source.path))  # noqa: PTH100 - keeps links: beside the path that was named
    yield (path if path.is_dir() else path.parent) / f".{path.name}{SUFFIX}"
    if (cache := user_cache()) is not None:
        folder = cache / "viewer" / _hashed(source)
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError:
            return
        yield folder / _NAME


def _hashed(source: ViewerSource) -> str:
    """A digest of the path and of the parts, because one folder may hold several sources."""
    digest = blake2b(digest_size=16)
    for path in (source.path, *(part.path for part in source.parts)):
        digest.update(os.fsencode(path.resolve()) + b"\0")
    return digest.hexdigest()


class IndexStorage:
    """The open database of a source. Only one thread at a time opens, moves or closes it."""

    def __init__(self, source: ViewerSource) -> None:
        self._source = source
        self._identity = identity_of(_described_parts(source))
        self._places = persistent_paths(source)
        self._temporary: TemporaryDirectory[str] | None = None
        self._opened: Database | None = None
        self._repaired: Path | None = None

    @property
    def database(self) -> Database:
        """Raises StorageError where none is open."""
        if self._opened is None:
            raise StorageError(f"the index of {self._source.path} is not open")
        return self._opened

    def open(self) -> None:
        """Open the database or create it. Raises StorageError where there is no location for it."""
        if self._opened is None:
            self._places = persistent_paths(self._source)
            self._open_next()

    def open_again(self) -> Database:
        """Open the database at the same path, where there is another file now.

        Raises StorageError.
        """
        path = self.database.path
        self._close_database()
        try:
            self._opened = Database(path, self._identity)
        except StorageError:
            self._open_next()
        return self.database

    def repair(self, error: sqlite3.Error) -> None:
        """Rebuild a damaged database; if that was done before, move to the next location.

        Raises StorageError.
        """
        database = self.database
        if is_damage(error) and database.is_writer and self._repaired != database.path:
            self._repaired = database.path
            database.discard()
            self.open_again()
        else:
            self._close_database()
            self._open_next()

    def close(self) -> None:
        self._close_database()
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = None

    def _open_next(self) -> None:
        for path in self._places:
            try:
                self._opened = Database(path, self._identity)
            except StorageError:
                continue
            return
        with storage_errors(self._source.path, "finding a location for its index"):
            folder = TemporaryDirectory(prefix="rollgym-viewer-", ignore_cleanup_errors=True)
        self._temporary = folder
        self._opened = Database(Path(folder.name) / _NAME, self._identity)

    def _close_database(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None


def _described_parts(source: ViewerSource) -> bytes:
    """The parts of a source with their formats, as JSON: what its index depends on."""
    named = [(relative_name(source, part.path), part.format.name) for part in source.parts]
    inputs = None if source.inputs is None else relative_name(source, source.inputs)
    return msgspec.json.encode((inputs, named))
