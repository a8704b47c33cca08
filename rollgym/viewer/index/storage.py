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

from rollgym.store.errors import StorageError, storage_error
from rollgym.viewer.index.builder import relative_name
from rollgym.viewer.index.database import Database, identity_of, is_damage
from rollgym.viewer.source import ViewerSource

SUFFIX = ".rollgym-index"
_NAME = "index" + SUFFIX


def persistent_paths(source: ViewerSource) -> Iterator[Path]:
    """Places that outlast the process, the best first. They may turn out not to be writable."""
    path = Path(os.path.abspath(source.path))  # noqa: PTH100 - links stay: beside what was named
    yield (path if path.is_dir() else path.parent) / f".{path.name}{SUFFIX}"
    if (cache := _cache()) is not None:
        folder = cache / "rollgym" / "viewer" / _hashed(source)
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError:
            return
        yield folder / _NAME


def temporary_path() -> tuple[Path, TemporaryDirectory[str]]:
    """A place for the time being, and the folder that is to be removed with it. Raises OSError."""
    folder = TemporaryDirectory(prefix="rollgym-viewer-", ignore_cleanup_errors=True)
    return Path(folder.name) / _NAME, folder


def _hashed(source: ViewerSource) -> str:
    """Of the path, and of the parts too: one folder may hold several sources."""
    digest = blake2b(digest_size=16)
    for path in (source.path, *(part.path for part in source.parts)):
        digest.update(os.fsencode(path.resolve()) + b"\0")
    return digest.hexdigest()


def _cache() -> Path | None:
    named = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(named):  # noqa: PTH117 - a relative one is to be ignored, says its standard
        return Path(named)
    try:
        return Path.home() / ".cache"
    except RuntimeError:
        return None


class IndexStorage:
    """The database that is open now. One thread at a time changes which one that is."""

    def __init__(self, source: ViewerSource) -> None:
        self._source = source
        self._identity = identity_of(_described_parts(source))
        self._places = persistent_paths(source)
        self._temporary: TemporaryDirectory[str] | None = None
        self._opened: Database | None = None
        self._mended: Path | None = None

    @property
    def database(self) -> Database:
        """Raises StorageError where none is open."""
        if self._opened is None:
            raise StorageError(f"the index of {self._source.path} is not open")
        return self._opened

    def open(self) -> None:
        """Find the database, or make it. Raises StorageError where there is no place for one."""
        if self._opened is None:
            self._places = persistent_paths(self._source)
            self._open_next()

    def open_again(self) -> Database:
        """The database at the same place, where there is another file now. Raises StorageError."""
        path = self.database.path
        self._close_database()
        try:
            self._opened = Database(path, self._identity)
        except StorageError:
            self._open_next()
        return self.database

    def mend(self, error: sqlite3.Error) -> None:
        """Make a damaged database anew; where that does not help, go elsewhere.

        Raises StorageError.
        """
        database = self.database
        if is_damage(error) and database.leading and self._mended != database.path:
            self._mended = database.path
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
        try:
            path, self._temporary = temporary_path()
        except OSError as error:
            raise storage_error(
                error, self._source.path, "finding a place for its index"
            ) from error
        self._opened = Database(path, self._identity)

    def _close_database(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None


def _described_parts(source: ViewerSource) -> bytes:
    """What an index is of: its parts, with their formats."""
    named = [(relative_name(source, part.path), part.format.name) for part in source.parts]
    inputs = None if source.inputs is None else relative_name(source, source.inputs)
    return msgspec.json.encode((inputs, named))
