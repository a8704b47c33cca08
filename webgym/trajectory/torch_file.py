"""Files that `torch.load(path, weights_only=True)` opens, written and read without torch.

*What is in one.* A zip archive of records that are stored as they are. `archive/data.pkl` is a
pickle of `{"trajectories": [...], "metadata": {...}}` in plain containers; `archive/version` and
`archive/byteorder` are what torch looks for; `archive/fragments` is ours, and says how many bytes
of the pickle each trajectory takes.

*Writing grows with what is new.* The pickle is a constant beginning, then for each trajectory its
fragment and the opcode that appends it to the list, then the metadata. A `TorchDraft` pickles
nothing twice: a fragment is appended to a draft, a nameless file in the target's folder, and the
checksum goes on over the bytes that were appended. `save` makes the target of it: it writes the
beginning of the archive, has the kernel copy the draft behind it (on file systems that share
blocks nothing is moved at all), and adds the metadata, the index and the directory. That goes to a
file beside the target, which takes its place when it is whole and on disk: a reader sees the old
file or the new one. A process that is killed leaves no draft.

*Reading holds one trajectory.* By the index each fragment is read by itself, checked to be plain
(see `plain_pickle`) and decoded, or handed on as it is. The beginning of the pickle, the sizes
and, where everything was read, the checksum must be right.
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
from typing import Self

from rollgym.store import Disk, StoreError
from rollgym.store.disk import sync_path, write_all
from rollgym.store.errors import storage_error
from webgym.trajectory.torch_archive import (
    ArchiveError,
    Place,
    PlainError,
    Record,
    check,
    decode,
    directory,
    encode,
    header,
    read_places,
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
    """A file cannot be read as trajectories."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            f"{path} cannot be read as trajectories: {reason}. A file that another program made or "
            "changed can be opened with torch.load(path, weights_only=True)."
        )
        self.path = path


class TorchDraft:
    """The trajectories of a file that is being made. For one thread at a time."""

    def __init__(self, path: Path, disk: Disk | None = None) -> None:
        """Makes the folder of `path`, the file to be; the file itself comes with `save`.

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
        """Begin anew. The saved file stays as it is."""
        self._lengths = array("Q")
        self._size = 0
        self._crc = zlib.crc32(_HEAD)

    def append(self, fragment: bytes) -> None:
        """Take in a trajectory, as `plain_pickle.encode` made it. Raises StorageError."""
        data = fragment + _APPEND
        with _storage(self.path, "writing the draft of the trajectories"):
            # At its place: what a full disk took of an earlier one is written over.
            os.lseek(self._draft.fileno(), self._size, os.SEEK_SET)
            write_all(self._disk, self._draft.fileno(), data)
        self._size += len(data)
        self._crc = zlib.crc32(data, self._crc)
        self._lengths.append(len(data))

    def save(self, metadata: Mapping[str, object], more: Iterable[bytes] = ()) -> None:
        """Make the file, with `more` fragments behind those of the draft.

        Raises StorageError, and PlainError for metadata that is not plain.
        """
        ending = b"".join((_BEFORE_METADATA, encode(dict(metadata)), _TAIL))
        with _storage(self.path, "saving the trajectories"):
            # One name, so that what a killed process left is taken over by the next.
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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write(self, target: int, more: Iterable[bytes], ending: bytes) -> None:
        lengths, size, crc = self._lengths[:], len(_HEAD) + self._size, self._crc
        # The header is written twice: it is as long without the numbers, which come last.
        write_all(self._disk, target, header(Record(_PICKLE, 0, 0, 0)) + _HEAD)
        _copy(self._disk, self._draft.fileno(), target, self._size)
        for fragment in more:
            data = fragment + _APPEND
            write_all(self._disk, target, data)
            lengths.append(len(data))
            size, crc = size + len(data), zlib.crc32(data, crc)
        write_all(self._disk, target, ending)
        pickled = Record(_PICKLE, 0, size + len(ending), zlib.crc32(ending, crc))
        records = [pickled]
        for name, content in {**_SMALL, _INDEX: _index_bytes(lengths)}.items():
            offset = os.lseek(target, 0, os.SEEK_CUR)
            records.append(Record(name, offset, len(content), zlib.crc32(content)))
            write_all(self._disk, target, header(records[-1]) + content)
        end = os.lseek(target, 0, os.SEEK_CUR)
        write_all(self._disk, target, directory(records, end))
        os.lseek(target, 0, os.SEEK_SET)
        write_all(self._disk, target, header(pickled))


class TorchFile:
    """A file of trajectories, open for reading: the one that was at the path, if it is replaced."""

    def __init__(self, path: Path) -> None:
        """Raises TorchFileError, StorageError."""
        self.path = path
        with ExitStack() as opened, self._reading():
            self._file = opened.enter_context(path.open("rb", buffering=0))
            places = read_places(self._file)
            self._pickle = _known(places, _PICKLE)
            self._lengths = self._read_lengths(_known(places, _INDEX))
            self._metadata_start = len(_HEAD) + sum(self._lengths)
            if self._bytes(0, len(_HEAD)) != _HEAD or self._metadata_start > self._pickle.size:
                raise ArchiveError("its pickle has another form")
            self.metadata = self._read_metadata()
            opened.pop_all()

    def __len__(self) -> int:
        return len(self._lengths)

    def fragments(self) -> Iterator[bytes]:
        """Each trajectory as it is pickled, checked to be plain, for a `TorchDraft` to take in.

        Raises TorchFileError, also behind the last one where the checksum is wrong; StorageError.
        """
        position, crc = len(_HEAD), zlib.crc32(_HEAD)
        with self._reading():
            for number, length in enumerate(self._lengths):
                data = self._bytes(position, length)
                if len(data) != length or data[-1:] != _APPEND:
                    raise ArchiveError(f"trajectory {number} is not where the index says")
                fragment = data[:-1]
                check(fragment)
                yield fragment
                position, crc = position + length, zlib.crc32(data, crc)
            ending = self._bytes(position, self._pickle.size - position)
            if zlib.crc32(ending, crc) != self._pickle.crc:
                raise ArchiveError("its checksum is wrong: it was damaged")

    def places(self) -> Iterator[tuple[int, int]]:
        """Where in the file each trajectory is, for who reads one by itself: start and length.

        What is there is a fragment, for `plain_pickle.decode`, which checks it.
        """
        start = self._pickle.start + len(_HEAD)
        for length in self._lengths:
            yield start, length - len(_APPEND)
            start += length

    def trajectories(self) -> Iterator[dict[str, object]]:
        """Each trajectory, decoded when it is asked for. Raises as `fragments` does."""
        for number, fragment in enumerate(self.fragments()):
            with self._reading():
                yield _as_dict(decode(fragment), f"trajectory {number}")

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read_lengths(self, index: Place) -> "array[int]":
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
            raise ArchiveError("its pickle has another form")
        fragment = ending[len(_BEFORE_METADATA) : -len(_TAIL)]
        return _as_dict(decode(fragment), "the metadata")

    def _bytes(self, position: int, length: int) -> bytes:
        """Of the pickle."""
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


def read_torch_file(path: Path) -> Iterator[dict[str, object]]:
    """The trajectories of a file, one at a time. Raises TorchFileError, StorageError."""
    with TorchFile(path) as file:
        yield from file.trajectories()


def _known(places: Mapping[str, Place], name: str) -> Place:
    if name not in places:
        raise ArchiveError(f"it has no record {name!r}")
    return places[name]


def _as_dict(value: object, what: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise PlainError(f"{what} is a {type(value).__name__} where a dict should be")
    return value


def _index_bytes(lengths: "array[int]") -> bytes:
    if sys.byteorder == "big":
        lengths.byteswap()
    return lengths.tobytes()


def _copy(disk: Disk, source: int, target: int, size: int) -> None:
    """Write the first `size` bytes of `source` to `target`, without taking them in where it can."""
    offset = 0
    if sys.platform == "linux":
        # Not every pair of file systems can: what is left then, is copied below.
        with contextlib.suppress(OSError):
            while offset < size:
                count = os.copy_file_range(source, target, size - offset, offset)
                if not count:
                    break
                offset += count
    while offset < size:
        block = os.pread(source, min(_BLOCK, size - offset), offset)
        if not block:
            raise OSError(errno.EIO, "the draft is shorter than what was written to it")
        write_all(disk, target, block)
        offset += len(block)


@contextmanager
def _storage(path: Path, doing: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise storage_error(error, path, doing) from error
