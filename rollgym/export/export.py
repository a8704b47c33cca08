"""From a file of rollouts to a file for a trainer, a task at a time."""

from pathlib import Path

import msgspec

from rollgym.export.draft import FileDraft
from rollgym.export.errors import ExportError
from rollgym.export.filter import GroupFilter, GroupRewards
from rollgym.export.formats import Format
from rollgym.export.index import RolloutIndex
from rollgym.export.transcripts import Transcripts
from rollgym.store.errors import storage_error


class ExportReport(msgspec.Struct, frozen=True, kw_only=True):
    """How much there was, how many tasks the filter chose and how many of these gave examples."""

    rollouts: int
    tasks: int
    chosen_tasks: int
    used_tasks: int
    examples: int


def export(
    source: Path, target: Path, into: Format, only: GroupFilter | None = None
) -> ExportReport:
    """Write the examples of every task that the filter chooses, in the order of the tasks.

    A file that was there is replaced when everything is written, and kept when anything goes wrong.
    Memory is a few numbers for each rollout, and the transcripts of one task. Raises ExportError
    with file and line, StorageError.
    """
    _refuse_same(source, target)
    index = RolloutIndex(source)
    tasks = chosen = used = examples = 0
    with Transcripts(source) as transcripts, FileDraft(target) as draft:
        for group in index.groups():
            tasks += 1
            if only is not None and not only(GroupRewards.of([place.reward for place in group])):
                continue
            chosen += 1
            before = examples
            for example in into.examples(group, transcripts):
                draft.write(msgspec.json.encode(example) + b"\n")
                examples += 1
            used += examples > before
    return ExportReport(
        rollouts=len(index),
        tasks=tasks,
        chosen_tasks=chosen,
        used_tasks=used,
        examples=examples,
    )


def _refuse_same(source: Path, target: Path) -> None:
    try:
        same = target.exists() and source.exists() and target.samefile(source)
    except OSError as error:
        raise storage_error(error, target, "looking for the export's place") from error
    if same:
        raise ExportError(f"{target}: this is the file to be exported: choose another output")
