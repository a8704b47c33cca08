"""Sources: what the viewer can open.

A *source* is one collection in one or several files, with the files that belong to it: the run's
manifest, its inputs, its monitor and its screenshots. A *part* is one of those files with its
format. A *format* knows how a record of that kind of file is summarised and shown. `EntryId` names
a record within its source.

Other packages add formats by entry points of the group `rollgym.viewer_sources`. Each entry point
names an `Opener`, which the viewer asks about every path before it tries its own openers.

*Journals.* A file is recognised as a journal by its name alone: listing its folder for each file
would take time that grows with the square of the number of files.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from rollgym.records import Row
from rollgym.store import WHOLE, Shard, journal_paths
from rollgym.store.layout import journal_path
from rollgym.viewer.summary import RecordSummary, TaskFacts
from rollgym.viewer.view import RolloutDocument


def is_inside(path: Path, root: Path) -> bool:
    """Whether a path lies in a resolved folder after its links are followed."""
    try:
        return path.resolve().is_relative_to(root)
    except (OSError, RuntimeError):  # links in a circle
        return False


MOST_SHARDS = 1024
_NAME = "journal*.jsonl"
_SHARD = re.compile(r"journal-(\d{1,9})-of-(\d{1,9})\.jsonl")


def is_journal(path: Path) -> bool:
    """Whether `rollgym.store.journal_paths` of its folder would list this path if it exists."""
    return path.match(_NAME)


def journals_of(run: Path) -> list[Path]:
    """The journals of a run, including those that do not exist yet.

    The name of one shard's journal says how many shards there are, so the order stays the same when
    another shard starts. For a run without a journal, this is the journal that it will have.
    """
    found = journal_paths(run)
    counts = {int(match[2]) for match in map(_match, found) if match}
    shards = (
        Shard(index, count) for count in counts if count <= MOST_SHARDS for index in range(count)
    )
    journals = {*found, *(journal_path(run, shard) for shard in shards)}
    return sorted(journals or {journal_path(run, WHOLE)}, key=_order)


def _match(journal: Path) -> re.Match[str] | None:
    return _SHARD.fullmatch(journal.name)


def _order(journal: Path) -> tuple[int, int, str]:
    match = _match(journal)
    return (int(match[2]), int(match[1]), "") if match else (0, 0, journal.name)


_SHIFT = 32
_TEXT = re.compile(r"(0|[1-9][0-9]{0,8})-([1-9][0-9]{0,9})")


class EntryId(NamedTuple):
    """A record within its source: the index of its part, and its number in that file.

    `record` counts from 1; in a file of lines it is the line number. The id stays the same when the
    index is rebuilt, so links can use it.
    """

    part: int
    record: int

    @classmethod
    def parse(cls, text: str) -> "EntryId":
        """From the form `0-17`. Raises ValueError."""
        match = _TEXT.fullmatch(text)
        if match is None or int(match[2]) >= 1 << _SHIFT:
            raise ValueError(
                f"{text[:40]!r} is not the id of a record: write part-record, such as 0-17"
            )
        return cls(int(match[1]), int(match[2]))

    @classmethod
    def of(cls, number: int) -> "EntryId":
        """From the number of the entry in the index."""
        return cls(number >> _SHIFT, number & ((1 << _SHIFT) - 1))

    @property
    def number(self) -> int:
        """The number of the entry in the index, `entry.id`."""
        return self.part << _SHIFT | self.record

    def __str__(self) -> str:
        return f"{self.part}-{self.record}"


ENTRY_POINTS = "rollgym.viewer_sources"

FactsOf = Callable[[int], TaskFacts | None]
"""Gives the facts of a task by its index, from the source's inputs."""


class RecordRange(NamedTuple):
    """The bytes of a file that a record occupies."""

    position: int
    length: int


class DocumentContext(Protocol):
    """What a document needs from its source beside its own record."""

    def input_row(self, task: int) -> Row | None:
        """The input row of a task; None where the source's inputs do not have it."""

    def facts(self, task: int) -> TaskFacts | None:
        """The facts of a task, from the inputs or from other records of the task."""

    @property
    def images(self) -> Path | None:
        """The folder that relative picture paths refer to."""


class RecordFormat(Protocol):
    """A kind of file. With `by_lines` each line is a record; otherwise `places` finds them."""

    name: str
    by_lines: bool = True

    def places(self, path: Path) -> Iterator[RecordRange]:
        """Where the records of a file are that is not `by_lines`. Raises StoreError."""
        return iter(())

    def summary(self, record: bytes, facts_of: FactsOf) -> RecordSummary:
        """Summarise a record. Raises ValueError where it is not a record of this format."""

    def document(self, record: bytes, context: DocumentContext) -> RolloutDocument:
        """Open a record. Raises ValueError where it is not a record of this format."""


class SourcePart(NamedTuple):
    """A file of a source. It may not exist yet."""

    path: Path
    format: RecordFormat


def size_of_file(path: Path) -> int:
    """The size in bytes; 0 for a file that does not exist."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


class ViewerSource(msgspec.Struct, frozen=True, kw_only=True):
    """One collection. `id` is its name in URLs.

    `kind` describes it for people. `inputs` is a materialised `inputs.jsonl`, `manifest` the run's
    manifest, `monitors` the snapshot files of its task monitors (one for each rank), and `images`
    the folder that relative picture paths refer to. `expected` is the number of rollouts where the
    manifest does not say it. `root` is the resolved folder that all these files must lie in
    whenever they are opened, except for a part that the user named.
    """

    id: str
    title: str
    kind: str
    path: Path
    parts: tuple[SourcePart, ...]
    inputs: Path | None = None
    manifest: Path | None = None
    monitors: tuple[Path, ...] = ()
    images: Path | None = None
    expected: int | None = None
    root: Path | None = None

    def leads_out(self, path: Path) -> bool:
        """Whether a path is now a link out of the source's folder."""
        return self.root is not None and not is_inside(path, self.root)

    def part_leads_out(self, path: Path) -> bool:
        """Whether the path of a part is now a link out; a path that the user named never is."""
        return path != self.path and self.leads_out(path)


Opener = Callable[[Path], Sequence[ViewerSource]]
"""Gives the sources at a path; empty where the opener does not know it. Raises StoreError.

It only looks into subfolders that belong to a source.
"""
