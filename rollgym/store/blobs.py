"""Content-addressed files beside the journal: screenshots and other large payloads.

A blob's name is the SHA-256 of its bytes, so equal payloads are stored once and a reference can be
checked when it is read. A blob lasts before its reference is returned; a record that names it can
therefore never outlive it.
"""

import asyncio
import re
from hashlib import sha256
from pathlib import Path

import msgspec

from rollgym.store.disk import Disk, make_directory, sync_path, write_atomically
from rollgym.store.errors import StorageError, storage_error

_NAME = re.compile(r"[0-9a-f]{64}(\.[a-z0-9]{1,8})?")


class BlobRef(msgspec.Struct, frozen=True):
    """Names a blob: 64 hexadecimal digits and, for people and programs, a file ending."""

    name: str
    size: int


class BlobStore:
    """The blobs of one run, under `directory`."""

    def __init__(self, directory: Path, disk: Disk | None = None) -> None:
        self.directory = directory
        self._disk = disk or Disk()

    async def put(self, data: bytes, ending: str = "") -> BlobRef:
        """Store bytes, off the event loop. `ending` is e.g. ".png". Raises StorageError."""
        return await asyncio.to_thread(self.put_now, data, ending)

    def put_now(self, data: bytes, ending: str = "") -> BlobRef:
        """Store bytes, waiting for the disk. Raises StorageError."""
        ref = BlobRef(sha256(data).hexdigest() + ending, len(data))
        path = self.path(ref)
        try:
            if path.is_file() and path.stat().st_size == ref.size:
                # Whoever stored it may not have come to this yet.
                sync_path(self._disk, path.parent)
                return ref
            make_directory(self._disk, path.parent)
            write_atomically(self._disk, path, data)
        except OSError as error:
            raise storage_error(error, path, "storing a blob") from error
        return ref

    def get(self, ref: BlobRef) -> bytes:
        """The bytes. Raises StorageError when they are missing or not what was stored."""
        path = self.path(ref)
        try:
            data = path.read_bytes()
        except OSError as error:
            raise storage_error(error, path, "reading a blob") from error
        if sha256(data).hexdigest() != ref.name[:64]:
            raise StorageError(f"{path}: the content is not what was stored there")
        return data

    def path(self, ref: BlobRef) -> Path:
        """Where the blob is. A reference may come from anybody: a name with a path is refused."""
        if not _NAME.fullmatch(ref.name):
            raise ValueError(f"{ref.name!r} is not the name of a blob")
        return self.directory / ref.name[:2] / ref.name
