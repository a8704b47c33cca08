"""What trainers read: examples for supervised training, preference pairs, groups of rollouts."""

from rollgym.export.errors import BadRowsError, ExportError
from rollgym.export.export import ExportReport, export
from rollgym.export.filter import GroupFilter, GroupRewards, parse_filter
from rollgym.export.formats import Format, PreferencePairs, SupervisedExamples, TaskGroups

__all__ = [
    "BadRowsError",
    "ExportError",
    "ExportReport",
    "Format",
    "GroupFilter",
    "GroupRewards",
    "PreferencePairs",
    "SupervisedExamples",
    "TaskGroups",
    "export",
    "parse_filter",
]
