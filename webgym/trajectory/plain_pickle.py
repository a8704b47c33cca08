"""Values as pickle opcodes of the simplest kind, and back: nothing else is written or read.

A *fragment* is one value in pickle protocol 2 without the opcodes that begin and end a pickle, so
fragments can be put one behind another into a larger pickle. It is written without a memo, and so
refers to nothing outside itself.

Pickles can call any function when they are read. A fragment is therefore walked over first: it may
hold texts, numbers, true, false, None, lists and dicts, and any other opcode is refused before
something is done with it. Runs of opcodes of a fixed size are passed by one regular expression, so
that a list of token ids costs no loop in Python.
"""

import io
import pickle
import re
import struct

_PROTOCOL = 2
_BEGIN = bytes((0x80, _PROTOCOL))
_END = b"."
_TEXT = ord("X")
_LONG = 0x8A
_TEXT_LENGTH = struct.Struct("<I")
# Empty dict and list, mark, None, true and false, setting and appending; then numbers.
_FIXED = re.compile(rb"(?:[}\](Nsuae\x88\x89]|K.|M..|J.{4}|G.{8})++", re.DOTALL)


class PlainError(ValueError):
    """The value, or the fragment, holds more than plain containers, or is no whole value."""


def encode(value: object) -> bytes:
    """The fragment of a value. Raises PlainError for what is not plain."""
    written = io.BytesIO()
    pickler = pickle.Pickler(written, _PROTOCOL)
    pickler.fast = True
    try:
        pickler.dump(value)
    except (pickle.PicklingError, TypeError, AttributeError, OverflowError) as error:
        raise PlainError(f"the value cannot be pickled: {error}") from error
    except (RecursionError, ValueError) as error:
        raise PlainError(f"the value is nested too deeply: {error}") from error
    fragment = written.getvalue()[len(_BEGIN) : -len(_END)]
    check(fragment)
    return fragment


def decode(fragment: bytes) -> object:
    """The value of a fragment, whoever wrote it; nothing is run. Raises PlainError."""
    check(fragment)
    try:
        return _Unpickler(io.BytesIO(b"".join((_BEGIN, fragment, _END)))).load()
    except (pickle.UnpicklingError, EOFError, LookupError, TypeError, ValueError) as error:
        raise PlainError(f"it is no value: {error}") from error
    except AttributeError as error:  # something that is no list was appended to
        raise PlainError(f"it is no value: {error}") from error


def check(fragment: bytes) -> None:
    """Raises PlainError where a fragment has an opcode that is not plain, or ends within one."""
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
                    f"opcode {fragment[position : position + 1]!r} at byte {position} makes more "
                    "than plain containers"
                )
    except (struct.error, IndexError) as error:
        raise PlainError("it ends within a value") from error
    if position != size:
        raise PlainError("it ends within a value")


class _Unpickler(pickle.Unpickler):
    """A second wall: what `check` let through names nothing, so this is never asked."""

    def find_class(self, module: str, name: str, /) -> object:
        raise pickle.UnpicklingError(f"it names {module}.{name}")

    def persistent_load(self, _: object, /) -> object:
        raise pickle.UnpicklingError("it names something outside itself")
