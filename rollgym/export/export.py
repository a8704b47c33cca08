"""Exporting rollouts to a file for a trainer, one task at a time."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec

from rollgym.export.filter import GroupFilter, GroupRewards
from rollgym.export.formats import FORMATS, ExportGroup, FormatOptions
from rollgym.export.rollouts import RolloutFile
from rollgym.export.source import ExportError, RolloutSource
from rollgym.store import write_derived
from rollgym.store.errors import storage_errors


class ExportReport(msgspec.Struct, kw_only=True):
    """The counts of an export: how many tasks the filter chose, and how many gave examples.

    `dropped` are the rollouts that no example has, by reason.
    """

    rollouts: int
    tasks: int = 0
    chosen_tasks: int = 0
    used_tasks: int = 0
    examples: int = 0
    dropped: Counter[str] = msgspec.field(default_factory=Counter)


def export(
    source: Path,
    target: Path,
    into: str,
    options: FormatOptions | None = None,
    only: GroupFilter | None = None,
) -> ExportReport:
    """Write the examples of every task that the filter chooses, in the order of the tasks.

    `into` is a name of `FORMATS`. An existing file is replaced when everything is written, and kept
    if anything goes wrong. Memory is a few numbers for each rollout, and the conversations of one
    task. Raises ExportError with file and line, StorageError.
    """
    _reject_same_file(source, target)
    with RolloutFile(source) as rollouts:
        report = ExportReport(rollouts=len(rollouts))
        lines = _lines(rollouts, into, options or FormatOptions(), only, report)
        write_derived(target, lines)
    return report


def _lines(
    source: RolloutSource,
    into: str,
    options: FormatOptions,
    only: GroupFilter | None,
    report: ExportReport,
) -> Iterator[bytes]:
    """The lines of the export; they are counted in the report on the way."""
    for members in source.groups():
        report.tasks += 1
        if only is not None and not only(GroupRewards.of([each.reward for each in members])):
            report.dropped["filtered out"] += len(members)
            continue
        report.chosen_tasks += 1
        before = report.examples
        for example in FORMATS[into](ExportGroup(source, members, report.dropped), options):
            report.examples += 1
            yield msgspec.json.encode(example) + b"\n"
        report.used_tasks += report.examples > before


def _reject_same_file(source: Path, target: Path) -> None:
    with storage_errors(target, "checking the output path"):
        same = target.exists() and source.exists() and target.samefile(source)
    if same:
        raise ExportError(f"{target} is the file to export: choose another output")
