"""What is said of a record that is none, and of a file that has no records at all.

A line that cannot be read is an entry like others: its title tells which line it is, its detail
what is wrong with it. A file that is one JSON document over many lines would have nothing but such
lines; of that the file says it once.
"""

import re
from pathlib import Path
from shlex import quote

import msgspec

from rollgym.monitor import printable_line
from rollgym.store.errors import StorageError
from rollgym.viewer.index.lines import LONGEST_RECORD, read_lines
from rollgym.viewer.summary import Status, Summary, TaskFacts
from rollgym.viewer.values import UNREADABLE

REASON_LIMIT = 200
TOO_LONG = f"it is longer than {LONGEST_RECORD >> 20} MiB, too long to be read"
_BEGUN_ARRAY = re.compile(rb"\[\s*(\{|$)")
"""How an array of rows begins. A log may begin with `[INFO]`."""
_NO_CHARACTER = "\ufffd"
_JSON = msgspec.json.Decoder(msgspec.Raw)


def unreadable(record: str, reason: str) -> Summary:
    """The summary of a record that is none. `record` tells which it is, as in `line 15`."""
    return Summary(
        status=Status.UNREADABLE, facts=TaskFacts(title=f"unreadable {record}"), detail=reason
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
