"""Decoding JSON that comes from outside: from files, requests, answers and models.

JSON can be nested deeper than a program can follow. msgspec raises RecursionError for it, which
callers that expect malformed text do not expect. Here it is a DecodeError like all others. Encoders
and comparisons call themselves for each level too, and stop at a depth that differs between them.
So texts that are also encoded or compared get a limit of their own (`is_deeper_than`).
"""

import re
from typing import Any, Generic, TypeVar, overload

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
