"""The lines of a large file, read in blocks, and lines that cannot be read as records.

A line that fits into a block is cut out of it. A longer one is measured first and then read, so
that a line which is too long for memory is never loaded.

A line that cannot be read becomes an entry like any other: its title names the line, and its detail
says what is wrong with it. A file that is one JSON document over many lines would only have such
lines; it is reported once, for the whole file.
"""

import codecs
import os
import re
from collections.abc import Iterator
from pathlib import Path
from shlex import quote
from typing import NamedTuple

import msgspec

from rollgym.monitor import printable_line
from rollgym.store.errors import StorageError
from rollgym.viewer.summary import EntryStatus, RecordSummary, TaskFacts
from rollgym.viewer.values import UNREADABLE

LONGEST_RECORD = 256 << 20
"""Bytes of the longest record that is read; of a longer one only its place is known."""
_BLOCK = 1 << 20
_MARK = codecs.BOM_UTF8
"""What some editors begin a file with; it belongs to no line."""


class FileLine(NamedTuple):
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


def read_lines(descriptor: int, start: int) -> Iterator[FileLine]:
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


def _line(position: int, content: bytes, *, finished: bool) -> FileLine:
    length = len(content)
    return FileLine(position, length, content if length <= LONGEST_RECORD else None, finished)


def _long_line(descriptor: int, position: int) -> FileLine:
    """The line that begins here and is longer than a block."""
    length, finished = _BLOCK, False
    while not finished and (block := os.pread(descriptor, _BLOCK, position + length)):
        end = block.find(b"\n")
        finished = end >= 0
        length += end if finished else len(block)
    if length > LONGEST_RECORD:
        return FileLine(position, length, None, finished)
    content = read_exactly(descriptor, position, length)
    return FileLine(position, length, content, finished)


REASON_LIMIT = 200
TOO_LONG = f"it is longer than {LONGEST_RECORD >> 20} MiB, too long to be read"
_BEGUN_ARRAY = re.compile(rb"\[\s*(\{|$)")
"""How an array of rows begins. A log may begin with `[INFO]`."""
_NO_CHARACTER = "\ufffd"
_JSON = msgspec.json.Decoder(msgspec.Raw)


def unreadable_summary(record: str, reason: str) -> RecordSummary:
    """The summary of a record that is none. `record` tells which it is, as in `line 15`."""
    return RecordSummary(
        status=EntryStatus.UNREADABLE, facts=TaskFacts(title=f"unreadable {record}"), detail=reason
    )


def reason_of(error: Exception) -> str:
    """Why a record cannot be read, in a line."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return printable_line(str(error), REASON_LIMIT) or type(error).__name__


def printable_text(beginning: bytes, *, whole: bool) -> str:
    """How a line begins, as text: `\\ufffd` for what is no character. It is cut unless `whole`."""
    text = beginning.decode("utf-8", "replace")
    if not whole:
        text = f"{text.rstrip(_NO_CHARACTER)}…"  # the last character may be half
    return "".join(char if char.isprintable() else _NO_CHARACTER for char in text)


def require_lines(descriptor: int, path: Path) -> None:
    """Raises StorageError where a file is one array of rows, and has none on each line; OSError."""
    lines = (line for line in read_lines(descriptor, 0) if not _is_blank(line.content))
    first = next(lines, None)
    if first is None or first.content is None or not _BEGUN_ARRAY.match(first.content.strip()):
        return
    second = next(lines, None)
    if _is_json(first.content):
        is_array = second is None
    else:  # one without an end may be half written; before rows, it is a line that is torn
        is_array = first.finished and not (second and _is_json(second.content))
    if is_array:
        raise StorageError(
            f"{path} is one JSON document, and the viewer reads one object on each line: make such "
            f"a file with  jq -c '.[]' {quote(path.name)} > {quote(f'{path.stem}_lines.jsonl')}"
        )


def _is_blank(content: bytes | None) -> bool:
    return content is not None and (not content or content.isspace())


def _is_json(text: bytes | None) -> bool:
    try:
        _JSON.decode(text or b"")
    except UNREADABLE:
        return False
    return True
