"""Content-addressed files beside the journal: screenshots and other large payloads.

A blob's name is the SHA-256 of its bytes, so equal payloads are stored once and a blob can be
checked when it is read. A blob is synced before its reference is returned, so every blob that a
record names exists.
"""

import asyncio
import re
from hashlib import sha256
from pathlib import Path

import msgspec

from rollgym.store.disk import Disk, make_directory, sync_path, write_atomically
from rollgym.store.errors import StorageError, storage_errors

_NAME = re.compile(r"[0-9a-f]{64}(\.[a-z0-9]{1,8})?")


class BlobRef(msgspec.Struct, frozen=True):
    """The name of a blob: 64 hexadecimal digits and optionally a file extension."""

    name: str
    size: int


class BlobStore:
    """The blobs of one run, under `directory`."""

    def __init__(self, directory: Path, disk: Disk | None = None) -> None:
        self.directory = directory
        self._disk = disk or Disk()

    async def put(self, data: bytes, extension: str = "") -> BlobRef:
        """Store bytes in a thread. `extension` is e.g. ".png". Raises StorageError."""
        return await asyncio.to_thread(self.put_now, data, extension)

    def put_now(self, data: bytes, extension: str = "") -> BlobRef:
        """Store bytes, waiting for the disk. Raises StorageError."""
        ref = BlobRef(sha256(data).hexdigest() + extension, len(data))
        path = self.path(ref)
        with storage_errors(path, "storing a blob"):
            if path.is_file() and path.stat().st_size == ref.size:
                # The process that stored it may have died before syncing its name.
                sync_path(self._disk, path.parent)
                return ref
            make_directory(self._disk, path.parent)
            write_atomically(self._disk, path, data)
        return ref

    def get(self, ref: BlobRef) -> bytes:
        """Read a blob. Raises StorageError when it is missing or damaged."""
        path = self.path(ref)
        with storage_errors(path, "reading a blob"):
            data = path.read_bytes()
        if sha256(data).hexdigest() != ref.name[:64]:
            raise StorageError(f"{path}: the content does not match its name: the file is damaged")
        return data

    async def read(self, ref: BlobRef) -> bytes:
        """As `get`, in a thread."""
        return await asyncio.to_thread(self.get, ref)

    def path(self, ref: BlobRef) -> Path:
        """Return the path of a blob. Raises ValueError for a name that is not a digest."""
        if not _NAME.fullmatch(ref.name):
            raise ValueError(f"{ref.name!r} is not the name of a blob")
        return self.directory / ref.name[:2] / ref.name
