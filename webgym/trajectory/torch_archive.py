"""The format of a torch file: a zip archive of records, one of which is a pickle.

*Archive.* Records are stored without compression, as torch does it. Every size and offset is
written in the 64-bit form of the format, so one code path writes files of any size. `read_records`
reads only archives that were written here: their directory has a known form and a bounded size.

*Pickle.* Values are written as pickle opcodes of the simplest kind. A *fragment* is one value in
pickle protocol 2 without the opcodes that start and end a pickle, so fragments can be joined into a
larger pickle. It is written without a memo, so it refers to nothing outside itself.

*Safety.* A pickle can call any function when it is read. A fragment is therefore checked first: it
may hold texts, numbers, true, false, None, lists and dicts; any other opcode is rejected before
anything is done with it. One regular expression passes over runs of opcodes of a fixed size, so a
list of token ids costs no loop in Python.
"""

import io
import os
import pickle
import re
import struct
from collections.abc import Sequence
from typing import BinaryIO, NamedTuple

_VERSION = 45  # of the zip format: the first with 64-bit sizes
_DATE = 33  # the first day of the format; equal contents make equal files
_ELSEWHERE = 0xFFFFFFFF  # the number is in the 64-bit part
_MOST_RECORDS = 64
_LONGEST_NAME = 256

_LOCAL = struct.Struct("<4s5H3I2H")
_LOCAL_SIZES = struct.Struct("<2H2Q")
_ENTRY = struct.Struct("<4s6H3I5H2I")
_ENTRY_SIZES = struct.Struct("<2H3Q")
_END_64 = struct.Struct("<4sQ2H2I4Q")
_LOCATOR = struct.Struct("<4sIQI")
_END = struct.Struct("<4s4H2IH")


class WrittenRecord(NamedTuple):
    """A record that has been written. `offset` is the start of its header."""

    name: str
    offset: int
    size: int
    crc: int


class StoredRecord(NamedTuple):
    """The position of a record's bytes in an archive."""

    start: int
    size: int
    crc: int


class ArchiveError(ValueError):
    """The file is not an archive that was written here."""


def header(record: WrittenRecord) -> bytes:
    """The bytes before a record. Their number depends on the name alone."""
    name = record.name.encode("ascii")
    fixed = _LOCAL.pack(
        b"PK\x03\x04", _VERSION, 0, 0, 0, _DATE, record.crc, _ELSEWHERE, _ELSEWHERE,
        len(name), _LOCAL_SIZES.size,
    )  # fmt: skip
    return fixed + name + _LOCAL_SIZES.pack(1, 16, record.size, record.size)


def directory(records: Sequence[WrittenRecord], offset: int) -> bytes:
    """The directory of an archive, which starts at `offset`, after the last record."""
    entries = b"".join(map(_entry, records))
    count, end = len(records), offset + len(entries)
    return b"".join(
        (
            entries,
            _END_64.pack(
                b"PK\x06\x06", _END_64.size - 12, _VERSION, _VERSION, 0, 0, count, count,
                len(entries), offset,
            ),
            _LOCATOR.pack(b"PK\x06\x07", 0, end, 1),
            _END.pack(b"PK\x05\x06", 0, 0, count, count, _ELSEWHERE, _ELSEWHERE, 0),
        )
    )  # fmt: skip


def read_records(file: BinaryIO) -> dict[str, StoredRecord]:
    """The records of an archive. Raises ArchiveError, OSError."""
    size = os.fstat(file.fileno()).st_size
    tail = _END_64.size + _LOCATOR.size + _END.size
    end_64 = _unpack(_END_64, _bytes_at(file, size - tail, _END_64.size), b"PK\x06\x06")
    count, length, offset = end_64[7:10]
    if count > _MOST_RECORDS or length > count * (_ENTRY.size + _LONGEST_NAME + _ENTRY_SIZES.size):
        raise ArchiveError("its directory is too large")
    if offset + length + tail != size:
        raise ArchiveError("its directory is not at the recorded offset")
    entries, found = _bytes_at(file, offset, length), {}
    position = 0
    for _ in range(count):
        fields = _unpack(_ENTRY, entries[position : position + _ENTRY.size], b"PK\x01\x02")
        method, crc, name_length, extra_length = fields[4], fields[7], fields[10], fields[11]
        position += _ENTRY.size
        name = entries[position : position + name_length].decode("ascii", "replace")
        position += name_length
        sizes = _unpack(_ENTRY_SIZES, entries[position : position + extra_length], 1)
        position += extra_length
        _, _, stored, packed, begin = sizes
        start = begin + _LOCAL.size + name_length + _LOCAL_SIZES.size
        if method != 0 or stored != packed or start + stored > offset:
            raise ArchiveError(f"its record {name!r:.60} is compressed or cut off")
        found[name] = StoredRecord(start, stored, crc)
    return found


def _entry(record: WrittenRecord) -> bytes:
    name = record.name.encode("ascii")
    fixed = _ENTRY.pack(
        b"PK\x01\x02", _VERSION, _VERSION, 0, 0, 0, _DATE, record.crc, _ELSEWHERE, _ELSEWHERE,
        len(name), _ENTRY_SIZES.size, 0, 0, 0, 0, _ELSEWHERE,
    )  # fmt: skip
    return fixed + name + _ENTRY_SIZES.pack(1, 24, record.size, record.size, record.offset)


def _unpack(form: struct.Struct, data: bytes, mark: bytes | int) -> tuple[int, ...]:
    """The fields of a structure, whose first field must be `mark`. Raises ArchiveError."""
    fields = form.unpack(data) if len(data) == form.size else (None,)
    if fields[0] != mark:
        raise ArchiveError("it was not written by this program")
    return fields


def _bytes_at(file: BinaryIO, offset: int, size: int) -> bytes:
    if offset < 0:
        raise ArchiveError("it is too short")
    return os.pread(file.fileno(), size, offset)


_PROTOCOL = 2
_START_PICKLE = bytes((0x80, _PROTOCOL))
_STOP = b"."
_TEXT = ord("X")
_LONG = 0x8A
_TEXT_LENGTH = struct.Struct("<I")
# Empty dict and list, mark, None, true and false, setting and appending; then numbers.
_FIXED = re.compile(rb"(?:[}\](Nsuae\x88\x89]|K.|M..|J.{4}|G.{8})++", re.DOTALL)


class PlainError(ValueError):
    """A value or a fragment holds more than plain containers, or is incomplete."""


def encode(value: object) -> bytes:
    """The fragment of a plain value. Raises PlainError."""
    written = io.BytesIO()
    pickler = pickle.Pickler(written, _PROTOCOL)
    pickler.fast = True
    try:
        pickler.dump(value)
    except (pickle.PicklingError, TypeError, AttributeError, OverflowError) as error:
        raise PlainError(f"the value cannot be pickled: {error}") from error
    except (RecursionError, ValueError) as error:
        raise PlainError(f"the value is nested too deeply: {error}") from error
    fragment = written.getvalue()[len(_START_PICKLE) : -len(_STOP)]
    check(fragment)
    return fragment


def decode(fragment: bytes) -> object:
    """The value of an untrusted fragment; no code is run. Raises PlainError."""
    check(fragment)
    try:
        return _PlainUnpickler(io.BytesIO(b"".join((_START_PICKLE, fragment, _STOP)))).load()
    except (pickle.UnpicklingError, EOFError, LookupError, TypeError, ValueError) as error:
        raise PlainError(f"it is not a value: {error}") from error
    except AttributeError as error:  # something else than a list was appended to
        raise PlainError(f"it is not a value: {error}") from error


def check(fragment: bytes) -> None:
    """Raise PlainError where a fragment has an opcode that is not plain, or ends inside one."""
    position, size = 0, len(fragment)
    try:
        while position < size:
            run = _FIXED.match(fragment, position)
            if run is not None:
                position = run.end()
            elif fragment[position] == _TEXT:
                position += 5 + _TEXT_LENGTH.unpack_from(fragment, position + 1)[0]
            elif fragment[position] == _LONG:
                position += 2 + fragment[position + 1]
            else:
                raise PlainError(
                    f"opcode {fragment[position : position + 1]!r} at byte {position} is not "
                    "allowed in plain containers"
                )
    except (struct.error, IndexError) as error:
        raise PlainError("it ends inside a value") from error
    if position != size:
        raise PlainError("it ends inside a value")


class _PlainUnpickler(pickle.Unpickler):
    """A second safeguard: `check` accepts no name, so these methods are never called."""

    def find_class(self, module: str, name: str, /) -> object:
        raise pickle.UnpicklingError(f"it refers to {module}.{name}")

    def persistent_load(self, _: object, /) -> object:
        raise pickle.UnpicklingError("it refers to something outside itself")
