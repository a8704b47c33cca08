"""Exporting a file of rollouts to a file for a trainer, one task at a time."""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from rollgym.export.filter import GroupFilter, GroupRewards
from rollgym.export.formats import ExportFormat
from rollgym.export.rollouts import ExportError, RolloutIndex, Transcripts
from rollgym.store import write_derived
from rollgym.store.errors import storage_errors


class ExportReport(msgspec.Struct, kw_only=True):
    """The counts of an export: how many tasks the filter chose, and how many gave examples."""

    rollouts: int
    tasks: int = 0
    chosen_tasks: int = 0
    used_tasks: int = 0
    examples: int = 0


def export(
    source: Path, target: Path, into: ExportFormat, only: GroupFilter | None = None
) -> ExportReport:
    """Write the examples of every task that the filter chooses, in the order of the tasks.

    An existing file is replaced when everything is written, and kept if anything goes wrong. Memory
    is a few numbers for each rollout, and the transcripts of one task. Raises ExportError with file
    and line, StorageError.
    """
    _reject_same_file(source, target)
    index = RolloutIndex(source)
    report = ExportReport(rollouts=len(index))
    with Transcripts(source) as transcripts:
        write_derived(target, _lines(index, transcripts, into, only, report))
    return report


def _lines(
    index: RolloutIndex,
    transcripts: Transcripts,
    into: ExportFormat,
    only: GroupFilter | None,
    report: ExportReport,
) -> Iterator[bytes]:
    """The lines of the export; they are counted in the report on the way."""
    for group in index.groups():
        report.tasks += 1
        if only is not None and not only(GroupRewards.of([each.reward for each in group])):
            continue
        report.chosen_tasks += 1
        before = report.examples
        for example in into.examples(group, transcripts):
            report.examples += 1
            yield msgspec.json.encode(example) + b"\n"
        report.used_tasks += report.examples > before


def _reject_same_file(source: Path, target: Path) -> None:
    with storage_errors(target, "checking the output path"):
        same = target.exists() and source.exists() and target.samefile(source)
    if same:
        raise ExportError(f"{target} is the file to export: choose another output")
