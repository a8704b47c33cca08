"""Token ids and log probabilities as short texts.

A text is base64 of little-endian numbers. The digit before it is the size of a number in bytes: 2
to 8 for ids, 4 (float) or 8 (double) for log probabilities. Log probabilities are doubles only
where floats are not the same numbers.
"""

import sys
from array import array
from base64 import b64decode
from binascii import Error as Base64Error
from binascii import b2a_base64
from collections.abc import Sequence
from struct import pack
from typing import Any

ID_CODE = "Q"
"""How an `array` holds ids."""
ID_SIZE = 8
_ALIGNED = 3
"""Base64 writes 3 bytes as 4 characters. So ids of this size can be encoded together, and the text
be cut into that of each part."""


class TokenError(ValueError):
    """The tokens of a rollout cannot be read; the message says which turn and why."""


def as_ids(ids: Sequence[int]) -> "array[int]":
    """Raises TokenError for numbers that are not ids."""
    if isinstance(ids, array):
        return ids
    try:
        return array(ID_CODE, ids)
    except (OverflowError, TypeError) as error:
        raise TokenError(f"they are not ids: {error}") from error


def pack_ids(ids: Sequence[int]) -> str:
    """Raises TokenError for numbers that are not ids."""
    return pack_each([as_ids(ids)])[0]


def pack_each(parts: Sequence["array[int]"]) -> list[str]:
    """Pack several arrays of ids, of which most of the work is done for all at once."""
    whole = array(ID_CODE, b"".join(parts))
    size, data = _narrow(ID_SIZE, _little(whole).tobytes())
    text = _base64(data) if size == _ALIGNED else ""
    largest, digit = data[size - 1 :: size], str(size)
    texts, end = list[str](), 0
    for part in parts:
        start, end = end, end + len(part)
        if text and any(largest[start:end]):
            texts.append(digit + text[start * 4 : end * 4])
            continue
        fewest, own = _narrow(size, data[start * size : end * size])
        texts.append(f"{fewest}{_base64(own)}" if own else "")
    return texts


def _narrow(size: int, data: bytes | bytearray) -> tuple[int, bytes | bytearray]:
    """Ids of `size` bytes in as few bytes as the largest of them needs, and how many these are."""
    count = len(data) // size
    fewest, zeros = size, bytes(count)
    while fewest > 2 and data[fewest - 1 :: size] == zeros:
        fewest -= 1
    if fewest == size:
        return size, data
    narrow = bytearray(count * fewest)
    for byte in range(fewest):
        narrow[byte::fewest] = data[byte::size]
    return fewest, narrow


def packed_count(text: str) -> int:
    """How many numbers a text has, by its length. Raises TokenError."""
    if not text:
        return 0
    if not "1" <= text[0] <= "9":
        raise TokenError(f"packed numbers cannot begin with {text[0]!r}")
    padding = len(text) - len(text.rstrip("="))
    return ((len(text) - 1) * 3 // 4 - padding) // int(text[0])


def unpack_ids(text: str) -> list[int]:
    """Raises TokenError."""
    if not text:
        return []
    size, data = _unpacked(text)
    if size == 2:
        return _little(array("H", data)).tolist()
    if not 2 <= size <= ID_SIZE:
        raise TokenError(f"ids of {size} bytes are unknown")
    wide = bytearray(len(data) // size * ID_SIZE)
    for byte in range(size):
        wide[byte::ID_SIZE] = data[byte::size]
    return _little(array(ID_CODE, bytes(wide))).tolist()


def pack_numbers(numbers: Sequence[float]) -> str:
    """Pack log probabilities, in single precision where that is exact."""
    if not numbers:
        return ""
    single = array("f", pack(f"{len(numbers)}f", *numbers))
    if single.tolist() == (numbers if isinstance(numbers, list) else list(numbers)):
        return "4" + _base64(_little(single))
    return "8" + _base64(_little(array("d", numbers)))


def unpack_numbers(text: str) -> list[float]:
    """Raises TokenError."""
    if not text:
        return []
    size, data = _unpacked(text)
    if size not in (4, 8):
        raise TokenError(f"log probabilities of {size} bytes are unknown")
    return _little(array("f" if size == 4 else "d", data)).tolist()


def _base64(data: "bytes | bytearray | array[Any]") -> str:
    return b2a_base64(data, newline=False).decode()


def _unpacked(text: str) -> tuple[int, bytes]:
    try:
        size, data = int(text[0]), b64decode(text[1:], validate=True)
    except (ValueError, Base64Error) as error:
        raise TokenError(f"packed numbers cannot be read: {error}") from error
    if not size or len(data) % size:
        raise TokenError(f"{len(data)} bytes are not numbers of {size} bytes")
    return size, data


def _little(numbers: "array[Any]") -> "array[Any]":
    """The numbers in little-endian order, or back."""
    if sys.byteorder == "big":
        numbers = numbers[:]
        numbers.byteswap()
    return numbers
