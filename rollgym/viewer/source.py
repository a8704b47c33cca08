"""What can be opened: a source is one collection, in one or several files.

A *format* knows how a record of some kind of file is summarised and shown. A *part* is a file with
its format. A *source* is the parts of one collection, and what lies beside them: the manifest of
the run, its inputs, its monitor, its screenshots.

Packages that rollgym knows nothing of add formats by entry points of the group
`rollgym.viewer_sources`: each names an `Opener`, which is asked about every path before the openers
of rollgym are.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from rollgym.records import Row
from rollgym.viewer.links import is_in
from rollgym.viewer.summary import Summary, TaskFacts
from rollgym.viewer.view import Document

ENTRY_POINTS = "rollgym.viewer_sources"

FactsOf = Callable[[int], TaskFacts | None]
"""What is known of a task by its index, from the source's inputs."""


class Place(NamedTuple):
    """Where a record is in its file."""

    position: int
    length: int


class Context(Protocol):
    """What a record does not say itself, and its source knows."""

    def input_row(self, task: int) -> Row | None:
        """The row of a task, from the source's inputs."""

    def facts(self, task: int) -> TaskFacts | None:
        """What is known of a task: from the inputs, or from other records of it."""

    @property
    def images(self) -> Path | None:
        """The folder that paths of pictures begin at."""


class Format(Protocol):
    """A kind of file. `by_lines` files have a record on each line; others say where theirs are."""

    @property
    def name(self) -> str: ...

    @property
    def by_lines(self) -> bool: ...

    def places(self, path: Path) -> Iterator[Place]:
        """Of a file that is not by lines. Raises StoreError."""

    def summary(self, record: bytes, facts_of: FactsOf) -> Summary:
        """Raises ValueError for what is no record of this format."""

    def document(self, record: bytes, context: Context) -> Document:
        """Raises ValueError."""


class Part(NamedTuple):
    """A file of a source. It may not be there yet."""

    path: Path
    format: Format


def size_of_file(path: Path) -> int:
    """In bytes; 0 for one that is not there, or not yet."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


class Source(msgspec.Struct, frozen=True, kw_only=True):
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
    parts: tuple[Part, ...]
    inputs: Path | None = None
    manifest: Path | None = None
    monitors: tuple[Path, ...] = ()
    images: Path | None = None
    expected: int | None = None
    root: Path | None = None

    def leads_out(self, path: Path) -> bool:
        """Whether a path is, by now, a link out of the folder of the source."""
        return self.root is not None and not is_in(path, self.root)

    def part_leads_out(self, path: Path) -> bool:
        """The same for that of a part."""
        return path != self.path and self.leads_out(path)


class Opener(Protocol):
    """Finds the sources at a path."""

    def __call__(self, path: Path) -> Sequence[Source]:
        """The sources of this path, none where it is not this opener's. Raises StoreError.

        It does not look into folders below, other than those that belong to a source.
        """
