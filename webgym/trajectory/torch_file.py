"""Files that `torch.load(path, weights_only=True)` opens, written and read without torch.

*Content.* A zip archive of uncompressed records (see `torch_archive`). `archive/data.pkl` is a
pickle of `{"trajectories": [...], "metadata": {...}}` in plain containers; torch looks for
`archive/version` and `archive/byteorder`; `archive/fragments` is our index, with the number of
bytes that each trajectory takes in the pickle.

*The cost of writing grows with what is new.* The pickle is a constant start, then for each
trajectory its fragment and the opcode that appends it to the list, then the metadata. A
`TorchDraft` pickles each trajectory once: it appends the fragment to a draft, an unnamed file in
the target's folder, and continues the checksum. `save` writes the start of the archive, lets the
kernel copy the draft after it (without moving data on file systems that share blocks), and adds the
metadata, the index and the directory. The result is a file beside the target that replaces it when
it is complete and on disk: a reader sees the old file or the new one. A killed process leaves no
draft.

*Reading holds one trajectory in memory.* The index gives the position of each fragment, which is
checked to be plain and decoded, or passed on unchanged. The start of the pickle, the sizes and,
after everything was read, the checksum must be right.
"""

import contextlib
import errno
import os
import sys
import tempfile
import zlib
from array import array
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rollgym.closing import Closable
from rollgym.store import Disk, StoreError
from rollgym.store.disk import sync_path, write_all
from rollgym.store.errors import storage_error, storage_errors
from webgym.trajectory.torch_archive import (
    ArchiveError,
    PlainError,
    StoredRecord,
    WrittenRecord,
    check,
    decode,
    directory,
    encode,
    header,
    read_records,
)

LONGEST_FRAGMENT = 1 << 30
MOST_TRAJECTORIES = 1 << 27
_BLOCK = 1 << 20

_PICKLE = "archive/data.pkl"
_INDEX = "archive/fragments"
_SMALL = {"archive/byteorder": b"little", "archive/version": b"3\n"}

_HEAD = b"\x80\x02}(" + encode("trajectories") + b"]"
_APPEND = b"a"
_BEFORE_METADATA = encode("metadata")
_TAIL = b"u."


class TorchFileError(StoreError):
    """A file cannot be read as a file of trajectories."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            f"{path} cannot be read as trajectories: {reason}. Open a file that another program "
            "wrote or changed with torch.load(path, weights_only=True)."
        )
        self.path = path


class TorchDraft(Closable):
    """The trajectories of a file that is being written. For one thread at a time."""

    def __init__(self, path: Path, disk: Disk | None = None) -> None:
        """Makes the folder of the file `path`; `save` writes the file itself.

        Raises StorageError.
        """
        self.path = path
        self._disk = disk or Disk()
        with _storage(path, "making a draft of the trajectories"):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._draft = tempfile.TemporaryFile(dir=path.parent, buffering=0)  # noqa: SIM115
        self.clear()

    def __len__(self) -> int:
        return len(self._lengths)

    def clear(self) -> None:
        """Remove all trajectories from the draft. A saved file stays unchanged."""
        self._lengths = array("Q")
        self._size = 0
        self._crc = zlib.crc32(_HEAD)

    def append(self, fragment: bytes) -> None:
        """Add a trajectory, as `torch_archive.encode` wrote it. Raises StorageError."""
        data = fragment + _APPEND
        with _storage(self.path, "writing the draft of the trajectories"):
            # At its offset: overwrites what a full disk accepted of an earlier one.
            os.lseek(self._draft.fileno(), self._size, os.SEEK_SET)
            write_all(self._disk, self._draft.fileno(), data)
        self._size += len(data)
        self._crc = zlib.crc32(data, self._crc)
        self._lengths.append(len(data))

    def save(self, metadata: Mapping[str, object], more: Iterable[bytes] = ()) -> None:
        """Write the file, with `more` fragments after those of the draft.

        Raises StorageError, and PlainError for metadata that is not plain.
        """
        ending = b"".join((_BEFORE_METADATA, encode(dict(metadata)), _TAIL))
        with _storage(self.path, "saving the trajectories"):
            # One name, so that the next process replaces the file of a killed one.
            whole = self.path.with_name(f".{self.path.name}.tmp")
            try:
                with whole.open("wb", buffering=0) as file:
                    self._write(file.fileno(), more, ending)
                    self._disk.sync(file.fileno())
                self._disk.replace(whole, self.path)
            except BaseException:
                whole.unlink(missing_ok=True)
                raise
            sync_path(self._disk, self.path.parent)

    def close(self) -> None:
        self._draft.close()

    def _write(self, target: int, more: Iterable[bytes], ending: bytes) -> None:
        lengths, size, crc = self._lengths[:], len(_HEAD) + self._size, self._crc
        # The header is written twice: its length is known before the numbers in it.
        write_all(self._disk, target, header(WrittenRecord(_PICKLE, 0, 0, 0)) + _HEAD)
        _copy(self._disk, self._draft.fileno(), target, self._size)
        for fragment in more:
            data = fragment + _APPEND
            write_all(self._disk, target, data)
            lengths.append(len(data))
            size, crc = size + len(data), zlib.crc32(data, crc)
        write_all(self._disk, target, ending)
        pickled = WrittenRecord(_PICKLE, 0, size + len(ending), zlib.crc32(ending, crc))
        records = [pickled]
        for name, content in {**_SMALL, _INDEX: _index_bytes(lengths)}.items():
            offset = os.lseek(target, 0, os.SEEK_CUR)
            records.append(WrittenRecord(name, offset, len(content), zlib.crc32(content)))
            write_all(self._disk, target, header(records[-1]) + content)
        end = os.lseek(target, 0, os.SEEK_CUR)
        write_all(self._disk, target, directory(records, end))
        os.lseek(target, 0, os.SEEK_SET)
        write_all(self._disk, target, header(pickled))


class TorchFile(Closable):
    """A file of trajectories, open for reading, also after another one has replaced it."""

    def __init__(self, path: Path) -> None:
        """Raises TorchFileError, StorageError."""
        self.path = path
        with ExitStack() as opened, self._reading():
            self._file = opened.enter_context(path.open("rb", buffering=0))
            records = read_records(self._file)
            self._pickle = _required(records, _PICKLE)
            self._lengths = self._read_lengths(_required(records, _INDEX))
            self._metadata_start = len(_HEAD) + sum(self._lengths)
            if self._bytes(0, len(_HEAD)) != _HEAD or self._metadata_start > self._pickle.size:
                raise ArchiveError("its pickle has an unknown form")
            self.metadata = self._read_metadata()
            opened.pop_all()

    def __len__(self) -> int:
        return len(self._lengths)

    def fragments(self) -> Iterator[bytes]:
        """Each trajectory as a checked fragment, which a `TorchDraft` can append.

        Raises TorchFileError, after the last one where the checksum is wrong, and StorageError.
        """
        position, crc = len(_HEAD), zlib.crc32(_HEAD)
        with self._reading():
            for number, length in enumerate(self._lengths):
                data = self._bytes(position, length)
                if len(data) != length or data[-1:] != _APPEND:
                    raise ArchiveError(f"trajectory {number} is not at the indexed offset")
                fragment = data[:-1]
                check(fragment)
                yield fragment
                position, crc = position + length, zlib.crc32(data, crc)
            ending = self._bytes(position, self._pickle.size - position)
            if zlib.crc32(ending, crc) != self._pickle.crc:
                raise ArchiveError("its checksum is wrong: the file is damaged")

    def places(self) -> Iterator[tuple[int, int]]:
        """The start and length of each trajectory in the file, for reading a single one.

        Those bytes are a fragment for `torch_archive.decode`, which checks it.
        """
        start = self._pickle.start + len(_HEAD)
        for length in self._lengths:
            yield start, length - len(_APPEND)
            start += length

    def trajectory(self, place: tuple[int, int]) -> dict[str, object]:
        """The trajectory at one of the `places`. Raises TorchFileError, StorageError."""
        with self._reading():
            start, length = place
            fragment = self._bytes(start - self._pickle.start, length)
            return _as_dict(decode(fragment), "the trajectory")

    def trajectories(self) -> Iterator[dict[str, object]]:
        """Each trajectory, decoded one at a time. Raises as `fragments`."""
        for number, fragment in enumerate(self.fragments()):
            with self._reading():
                yield _as_dict(decode(fragment), f"trajectory {number}")

    def close(self) -> None:
        self._file.close()

    def _read_lengths(self, index: StoredRecord) -> "array[int]":
        if index.size % 8 or index.size > 8 * MOST_TRAJECTORIES:
            raise ArchiveError("its index has an impossible size")
        lengths = array("Q", os.pread(self._file.fileno(), index.size, index.start))
        if sys.byteorder == "big":
            lengths.byteswap()
        if 8 * len(lengths) != index.size or any(n > LONGEST_FRAGMENT for n in lengths):
            raise ArchiveError("its index holds an impossible length")
        return lengths

    def _read_metadata(self) -> dict[str, object]:
        ending = self._bytes(self._metadata_start, self._pickle.size - self._metadata_start)
        if not ending.startswith(_BEFORE_METADATA) or not ending.endswith(_TAIL):
            raise ArchiveError("its pickle has an unknown form")
        fragment = ending[len(_BEFORE_METADATA) : -len(_TAIL)]
        return _as_dict(decode(fragment), "the metadata")

    def _bytes(self, position: int, length: int) -> bytes:
        """Bytes of the pickle."""
        if length > LONGEST_FRAGMENT:
            raise ArchiveError(f"a part of it is longer than {LONGEST_FRAGMENT >> 20} MiB")
        parts, start = [], self._pickle.start + position
        while length and (part := os.pread(self._file.fileno(), length, start)):
            parts.append(part)
            start, length = start + len(part), length - len(part)
        return b"".join(parts)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise storage_error(error, self.path, "reading the trajectories") from error
        except (ArchiveError, PlainError) as error:
            raise TorchFileError(self.path, str(error)) from error


def read_torch_file(path: str | Path) -> Iterator[dict[str, object]]:
    """The trajectories of a file, one at a time. Raises TorchFileError, StorageError."""
    with TorchFile(Path(path)) as file:
        yield from file.trajectories()


def _required(records: Mapping[str, StoredRecord], name: str) -> StoredRecord:
    if name not in records:
        raise ArchiveError(f"it has no record {name!r}")
    return records[name]


def _as_dict(value: object, what: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise PlainError(f"{what} is a {type(value).__name__} where a dict should be")
    return value


def _index_bytes(lengths: "array[int]") -> bytes:
    if sys.byteorder == "big":
        lengths.byteswap()
    return lengths.tobytes()


def _copy(disk: Disk, source: int, target: int, size: int) -> None:
    """Copy the first `size` bytes of `source` to `target`, inside the kernel where possible."""
    offset = 0
    if sys.platform == "linux":
        # Some file systems cannot do this: the rest is copied below.
        with contextlib.suppress(OSError):
            while offset < size:
                count = os.copy_file_range(source, target, size - offset, offset)
                if not count:
                    break
                offset += count
    while offset < size:
        block = os.pread(source, min(_BLOCK, size - offset), offset)
        if not block:
            raise OSError(errno.EIO, "the draft is shorter than expected")
        write_all(disk, target, block)
        offset += len(block)


@contextmanager
def _storage(path: Path, doing: str) -> Iterator[None]:
    with storage_errors(path, doing):
        yield
