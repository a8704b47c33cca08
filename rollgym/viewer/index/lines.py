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
"""Bytes of the longest record that is read; of a longer one only its position is known."""
_BLOCK = 1 << 20
_MARK = codecs.BOM_UTF8
"""The byte order mark that some editors write at the start of a file; not part of a line."""


class FileLine(NamedTuple):
    """A line without its line break. `content` is None for a line that is too long.

    A line that is not `finished` has no line break: it is the last one of the file.
    """

    position: int
    length: int
    content: bytes | None
    finished: bool

    @property
    def end(self) -> int:
        """Where the next line starts."""
        return self.position + self.length + self.finished


def read_lines(descriptor: int, start: int) -> Iterator[FileLine]:
    """All lines from `start` on, at which a line must start. Raises OSError."""
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
    """`length` bytes, or fewer at the end of the file. Raises OSError."""
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
    """The line that starts here and is longer than a block."""
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
TOO_LONG = f"it is longer than the limit of {LONGEST_RECORD >> 20} MiB"
_BEGUN_ARRAY = re.compile(rb"\[\s*(\{|$)")
"""The start of an array of rows. A log may start with `[INFO]`."""
_NO_CHARACTER = "\ufffd"
_JSON = msgspec.json.Decoder(msgspec.Raw)


def unreadable_summary(record: str, reason: str) -> RecordSummary:
    """The summary of an unreadable record. `record` names it, as in `line 15`."""
    return RecordSummary(
        status=EntryStatus.UNREADABLE, facts=TaskFacts(title=f"unreadable {record}"), detail=reason
    )


def reason_of(error: Exception) -> str:
    """Why a record cannot be read, in one line."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return printable_line(str(error), REASON_LIMIT) or type(error).__name__


def printable_text(beginning: bytes, *, whole: bool) -> str:
    """The start of a line as text, with `\\ufffd` for invalid bytes. Unless `whole`, it is cut."""
    text = beginning.decode("utf-8", "replace")
    if not whole:
        text = f"{text.rstrip(_NO_CHARACTER)}…"  # the last character may be half
    return "".join(char if char.isprintable() else _NO_CHARACTER for char in text)


def require_lines(descriptor: int, path: Path) -> None:
    """Raises StorageError for a file that is one JSON array over several lines; OSError."""
    lines = (line for line in read_lines(descriptor, 0) if not _is_blank(line.content))
    first = next(lines, None)
    if first is None or first.content is None or not _BEGUN_ARRAY.match(first.content.strip()):
        return
    second = next(lines, None)
    if _is_json(first.content):
        is_array = second is None
    else:  # an unfinished array may still be written; before rows, it is a torn line
        is_array = first.finished and not (second and _is_json(second.content))
    if is_array:
        raise StorageError(
            f"{path} is one JSON document, but the viewer reads one object per line. Convert it: "
            f"jq -c '.[]' {quote(path.name)} > {quote(f'{path.stem}_lines.jsonl')}"
        )


def _is_blank(content: bytes | None) -> bool:
    return content is not None and (not content or content.isspace())


def _is_json(text: bytes | None) -> bool:
    try:
        _JSON.decode(text or b"")
    except UNREADABLE:
        return False
    return True
