"""Content-addressed blobs."""

import asyncio
import errno
import os
from pathlib import Path

import pytest

from rollgym.store import (
    BlobRef,
    BlobStore,
    Disk,
    DiskFullError,
    StorageError,
    StorageVanishedError,
)


def test_equal_payloads_are_stored_once_and_read_back(tmp_path: Path) -> None:
    blobs = BlobStore(tmp_path)
    ref = asyncio.run(blobs.put(b"pixels", ".png"))
    stored = blobs.path(ref).stat()
    assert blobs.put_now(b"pixels", ".png") == ref
    assert os.path.samestat(stored, blobs.path(ref).stat())
    assert blobs.get(ref) == b"pixels"
    assert ref.size == 6
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [blobs.path(ref)]


def test_one_payload_may_be_stored_by_many_at_once(tmp_path: Path) -> None:
    async def main() -> None:
        for number in range(20):
            blobs, data = BlobStore(tmp_path), b"%d" % number * 1000
            refs = await asyncio.gather(*(blobs.put(data) for _ in range(8)))
            assert len(set(refs)) == 1
            assert blobs.get(refs[0]) == data

    asyncio.run(main())
    assert not list(tmp_path.rglob("*.tmp"))


def test_a_damaged_or_missing_blob_is_an_error(tmp_path: Path) -> None:
    blobs = BlobStore(tmp_path)
    ref = blobs.put_now(b"pixels")
    blobs.path(ref).write_bytes(b"pix")
    with pytest.raises(StorageError, match="does not match its name"):
        blobs.get(ref)
    blobs.put_now(b"pixels")
    assert blobs.get(ref) == b"pixels"
    blobs = BlobStore(tmp_path)
    ref = blobs.put_now(b"pixels")
    blobs.path(ref).unlink()
    with pytest.raises(StorageVanishedError, match="while reading a blob"):
        blobs.get(ref)
    cases: list[str] = ["../../etc/passwd", "a" * 63, "A" * 64, "a" * 64 + "/../x", ""]
    for number, name in enumerate(cases):
        directory = tmp_path / str(number)
        directory.mkdir()
        with pytest.raises(ValueError, match="not the name of a blob"):
            BlobStore(directory).get(BlobRef(name, 1))


class FullDisk(Disk):
    def write(self, descriptor: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_blob_that_does_not_fit_leaves_nothing_on_the_full_disk(tmp_path: Path) -> None:
    with pytest.raises(DiskFullError):
        BlobStore(tmp_path, FullDisk()).put_now(b"picture")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
