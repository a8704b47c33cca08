"""A JSONL file of the user's that is read more than once, and must stay as it is meanwhile."""

import os
import stat
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import BinaryIO, NamedTuple

from rollgym.store import InputsError
from rollgym.store.errors import storage_error

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Line(NamedTuple):
    """A line that is not blank: its number from 1, the byte it begins at, and what it says."""

    number: int
    offset: int
    content: bytes


class InputFile:
    """Every opening gives the same content, or an error."""

    def __init__(self, path: Path) -> None:
        """Raises InputsError for a path that no file is at, StorageError."""
        self.path = path
        try:
            self._seen = _fingerprint(path.stat())
        except (FileNotFoundError, NotADirectoryError) as error:
            raise InputsError(f"there is no file {path}{_close(path)}") from error
        except OSError as error:
            raise storage_error(error, path, "looking for the input") from error
        if not path.is_file():
            what = "a directory" if path.is_dir() else "a pipe or a device"
            raise InputsError(
                f"the input {path} is {what}, not a file; it is read more than once, so it must "
                "be a file on disk"
            )

    def open(self) -> BinaryIO:
        """Raises InputsError when the file was changed, OSError."""
        file = self.path.open("rb")
        if _fingerprint(os.fstat(file.fileno())) != self._seen:
            file.close()
            raise self.changed()
        return file

    def changed(self) -> InputsError:
        return InputsError(f"{self.path} was changed while it was read: run the command again")


def lines_of(file: BinaryIO) -> Iterator[Line]:
    """Every line that is not blank, without the mark that some programs begin a file with."""
    offset = 0
    for number, line in enumerate(file, start=1):
        mark = len(_BYTE_ORDER_MARK) if offset == 0 and line.startswith(_BYTE_ORDER_MARK) else 0
        content = line[mark:]
        if content and not content.isspace():
            yield Line(number, offset + mark, content)
        offset += len(line)


def _fingerprint(status: os.stat_result) -> tuple[int, ...]:
    """Of what changes whenever the content does."""
    kind = stat.S_IFMT(status.st_mode)
    return (kind, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def _close(path: Path) -> str:
    """What could have been meant."""
    try:
        names = [each.name for each in path.parent.iterdir() if each.is_file()]
    except OSError:
        return ""
    close = get_close_matches(path.name, names, 1, cutoff=0.8)  # all of them end in .jsonl
    return f"; did you mean {path.parent / close[0]}?" if close else ""
