"""The checksum of a line of JSON, which shows whether the line was damaged or edited.

The last field of a line, `crc32`, is the CRC-32 of the line without that field, as eight
hexadecimal digits.
"""

from zlib import crc32

import msgspec

from rollgym.records.decoding import JsonDecoder


class ChecksumError(ValueError):
    """The line is not the one that was written."""


class _Checksum(msgspec.Struct):
    """The checksum of a line, wherever a program that wrote the line again has put it."""

    crc32: object = None


_CHECKSUM = JsonDecoder(_Checksum)
_NAME = b',"crc32":"'
_SIZE = len(_NAME) + len(b'01234567"}')


def line_with_checksum(encoded: bytes) -> bytes:
    """The line of a JSON object, with its checksum and a line break."""
    return b"".join((memoryview(encoded)[:-1], b',"crc32":"%08x"}\n' % crc32(encoded)))


def require_checksum(line: bytes) -> None:
    """Raises ChecksumError where the line has a checksum that does not match."""
    end = len(line) - line.endswith(b"\n")
    start = end - _SIZE
    name_end = start + len(_NAME)
    if line[start:name_end] == _NAME:
        expected = b'%08x"}' % crc32(b"}", crc32(memoryview(line)[:start]))
        if line[name_end:end] == expected:
            return
    elif _CHECKSUM.decode(line).crc32 is None:
        return
    raise ChecksumError("it was changed after it was written: its checksum does not match")
