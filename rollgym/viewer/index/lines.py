"""The lines of a large file, read in blocks, with where each of them stands.

A line that fits into a block is cut out of it. A longer one is first measured and then read, so
that one too long to be held never is.
"""

import codecs
import os
from collections.abc import Iterator
from typing import NamedTuple

LONGEST_RECORD = 256 << 20
"""Bytes of the longest record that is read; of a longer one only its place is known."""
_BLOCK = 1 << 20
_MARK = codecs.BOM_UTF8
"""What some editors begin a file with; it belongs to no line."""


class Line(NamedTuple):
    """A line without its line break. `content` is None for one that is too long to be held.

    One that is not `finished` has no line break: the file ends with it.
    """

    position: int
    length: int
    content: bytes | None
    finished: bool

    @property
    def end(self) -> int:
        """Where the next line begins."""
        return self.position + self.length + self.finished


def read_lines(descriptor: int, start: int) -> Iterator[Line]:
    """Every line from a byte on that a line begins at. Raises OSError."""
    position = start or _beginning(descriptor)
    while block := os.pread(descriptor, _BLOCK, position):
        begin = 0
        while (end := block.find(b"\n", begin)) >= 0:
            yield _line(position + begin, block[begin:end], finished=True)
            begin = end + 1
        position += begin
        if len(block) < _BLOCK:
            if begin < len(block):
                yield _line(position, block[begin:], finished=False)
            return
        if begin == 0:
            line = _long_line(descriptor, position)
            yield line
            position = line.end


def read_exactly(descriptor: int, position: int, length: int) -> bytes:
    """As many bytes as are there, at most `length`. Raises OSError."""
    content = os.pread(descriptor, length, position)
    if len(content) == length or not content:
        return content
    parts, missing = [content], length - len(content)
    while missing and (more := os.pread(descriptor, missing, position + length - missing)):
        parts.append(more)
        missing -= len(more)
    return b"".join(parts)


def _beginning(descriptor: int) -> int:
    return len(_MARK) if os.pread(descriptor, len(_MARK), 0) == _MARK else 0


def _line(position: int, content: bytes, *, finished: bool) -> Line:
    length = len(content)
    return Line(position, length, content if length <= LONGEST_RECORD else None, finished)


def _long_line(descriptor: int, position: int) -> Line:
    """The line that begins here and is longer than a block."""
    length, finished = _BLOCK, False
    while not finished and (block := os.pread(descriptor, _BLOCK, position + length)):
        end = block.find(b"\n")
        finished = end >= 0
        length += end if finished else len(block)
    if length > LONGEST_RECORD:
        return Line(position, length, None, finished)
    content = read_exactly(descriptor, position, length)
    return Line(position, length, content, finished)
