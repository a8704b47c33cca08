"""Exports for trainers: supervised examples, preference pairs, groups of rollouts."""

from rollgym.export.export import ExportReport, export
from rollgym.export.filter import GroupFilter, GroupRewards, parse_filter
from rollgym.export.formats import (
    ExportFormat,
    PreferencePairs,
    SupervisedExamples,
    TaskGroups,
)
from rollgym.export.rollouts import BadRowsError, ExportError

__all__ = [
    "BadRowsError",
    "ExportError",
    "ExportFormat",
    "ExportReport",
    "GroupFilter",
    "GroupRewards",
    "PreferencePairs",
    "SupervisedExamples",
    "TaskGroups",
    "export",
    "parse_filter",
]
