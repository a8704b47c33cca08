"""Where an index is kept: beside what it is of, else in the user's cache, else for the time being.

The index of a file lies beside it, that of a folder inside it. Where that folder cannot be written
it is kept in the cache, under a name made from the path. Where that fails too it is a temporary
file, and made again the next time.
"""

import os
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory

from rollgym.viewer.source import Source

SUFFIX = ".rollgym-index"
_NAME = "index" + SUFFIX


def lasting_places(source: Source) -> Iterator[Path]:
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


def temporary_place() -> tuple[Path, TemporaryDirectory[str]]:
    """A place for the time being, and the folder that is to be removed with it. Raises OSError."""
    folder = TemporaryDirectory(prefix="rollgym-viewer-", ignore_cleanup_errors=True)
    return Path(folder.name) / _NAME, folder


def _hashed(source: Source) -> str:
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
