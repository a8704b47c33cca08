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
    """Whether a path is in a folder, itself resolved, once its links are followed."""
    try:
        return path.resolve().is_relative_to(root)
    except (OSError, RuntimeError):  # links in a circle
        return False


MOST_SHARDS = 1024
_NAME = "journal*.jsonl"
_SHARD = re.compile(r"journal-(\d{1,9})-of-(\d{1,9})\.jsonl")


def is_journal(path: Path) -> bool:
    """Whether `rollgym.store.journal_paths` of its folder would have it, if it is there."""
    return path.match(_NAME)


def journals_of(run: Path) -> list[Path]:
    """Those of the whole and of all shards, in an order that stays when another shard begins.

    A shard says how many there are. Of a run without a journal it is the one that there will be.
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
    """`record` counts from 1: of a file by lines it is the line number.

    It is the same whenever the index is built anew, so it may stand in links.
    """

    part: int
    record: int

    @classmethod
    def parse(cls, text: str) -> "EntryId":
        """From the form `0-17`. Raises ValueError."""
        match = _TEXT.fullmatch(text)
        if match is None or int(match[2]) >= 1 << _SHIFT:
            raise ValueError(f"{text[:40]!r} names no record: give it as part-record, such as 0-17")
        return cls(int(match[1]), int(match[2]))

    @classmethod
    def of(cls, number: int) -> "EntryId":
        """From the number that the index has it under."""
        return cls(number >> _SHIFT, number & ((1 << _SHIFT) - 1))

    @property
    def number(self) -> int:
        """What the index has it under, as `entry.id`."""
        return self.part << _SHIFT | self.record

    def __str__(self) -> str:
        return f"{self.part}-{self.record}"


ENTRY_POINTS = "rollgym.viewer_sources"

FactsOf = Callable[[int], TaskFacts | None]
"""What is known of a task by its index, from the source's inputs."""


class RecordRange(NamedTuple):
    """Where a record is in its file."""

    position: int
    length: int


class DocumentContext(Protocol):
    """What a record does not say itself, and its source knows."""

    def input_row(self, task: int) -> Row | None:
        """The row of a task, from the source's inputs."""

    def facts(self, task: int) -> TaskFacts | None:
        """What is known of a task: from the inputs, or from other records of it."""

    @property
    def images(self) -> Path | None:
        """The folder that paths of pictures begin at."""


class RecordFormat(Protocol):
    """A kind of file. `by_lines` files have a record on each line; others say where theirs are."""

    @property
    def name(self) -> str: ...

    @property
    def by_lines(self) -> bool: ...

    def places(self, path: Path) -> Iterator[RecordRange]:
        """Of a file that is not by lines. Raises StoreError."""

    def summary(self, record: bytes, facts_of: FactsOf) -> RecordSummary:
        """Raises ValueError for what is no record of this format."""

    def document(self, record: bytes, context: DocumentContext) -> RolloutDocument:
        """Raises ValueError."""


class SourcePart(NamedTuple):
    """A file of a source. It may not be there yet."""

    path: Path
    format: RecordFormat


def size_of_file(path: Path) -> int:
    """In bytes; 0 for one that is not there, or not yet."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


class ViewerSource(msgspec.Struct, frozen=True, kw_only=True):
    """One collection. `id` is its name in URLs.

    `inputs` is a materialised `inputs.jsonl`, `manifest` the run's, `monitors` the snapshots
    of its task monitors, one for each rank, `images` the folder that paths of pictures begin at.
    `expected` is how many rollouts there are to be where the manifest does not say it. `kind` is
    for people. `root` is the folder, itself resolved, that all of this must be in whenever it is
    opened, but for a part that is the path which somebody named.
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
        """Whether a path is, by now, a link out of the folder of the source."""
        return self.root is not None and not is_inside(path, self.root)

    def part_leads_out(self, path: Path) -> bool:
        """The same for that of a part."""
        return path != self.path and self.leads_out(path)


class Opener(Protocol):
    """Finds the sources at a path."""

    def __call__(self, path: Path) -> Sequence[ViewerSource]:
        """The sources of this path, none where it is not this opener's. Raises StoreError.

        It does not look into folders below, other than those that belong to a source.
        """
