"""JSON that comes from outside (from files, requests, answers and models), decoded and checked.

*Depth.* JSON can be nested deeper than a program can follow. msgspec raises RecursionError for it,
which callers that expect malformed text do not expect. Here it is a DecodeError like all others.
Encoders and comparisons call themselves for each level too, and stop at a depth that differs
between them. So texts that are also encoded or compared get a limit of their own
(`is_deeper_than`).

*Checksums* show whether a line of one of our logs was damaged or edited. The last field of a line,
`crc32`, is the CRC-32 of the line without that field, as eight hexadecimal digits.
"""

import re
from typing import Any, Generic, TypeVar, overload
from zlib import crc32

import msgspec

T = TypeVar("T")
TOO_DEEP = "it is nested too deeply"


class JsonDecoder(Generic[T]):
    """Decodes JSON as one type."""

    __slots__ = ("_decode",)

    @overload
    def __init__(self, as_type: type[T], *, strict: bool = True) -> None: ...
    @overload
    def __init__(self: "JsonDecoder[Any]", as_type: Any = Any, *, strict: bool = True) -> None: ...
    def __init__(self, as_type: Any = Any, *, strict: bool = True) -> None:
        """Without `strict`, numbers and booleans may be written as strings."""
        self._decode = msgspec.json.Decoder(as_type, strict=strict).decode

    def decode(self, text: bytes | bytearray | memoryview | str) -> T:
        """Raises msgspec.DecodeError; its subclass ValidationError where the type differs."""
        try:
            value: T = self._decode(text)
        except RecursionError as error:
            raise msgspec.DecodeError(TOO_DEEP) from error
        return value


@overload
def decode_json(text: bytes | str, as_type: type[T]) -> T: ...
@overload
def decode_json(text: bytes | str, as_type: Any = Any) -> Any: ...
def decode_json(text: bytes | str, as_type: Any = Any) -> Any:
    """Decode JSON that is not decoded often. Raises msgspec.DecodeError."""
    try:
        return msgspec.json.decode(text, type=as_type)
    except RecursionError as error:
        raise msgspec.DecodeError(TOO_DEEP) from error


DEEPEST_ARGUMENTS = 100
"""The most levels that the arguments of a tool call may have."""
# A string without its end is skipped too, so no character is read twice.
_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[{]|[\]}]', re.DOTALL)


def is_deeper_than(limit: int, text: str) -> bool:
    """Whether arrays and objects of a JSON text are nested more than `limit` levels deep."""
    if text.count("[") + text.count("{") <= limit:
        return False
    depth = 0
    for token in _TOKEN.finditer(text):
        match token[0][0]:
            case "[" | "{":
                depth += 1
                if depth > limit:
                    return True
            case "]" | "}":
                depth -= 1
    return False


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
