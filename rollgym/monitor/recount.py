"""A run's numbers from its files alone, without locks, also while it is being written."""

from collections.abc import Callable
from pathlib import Path

from rollgym.engine import Coverage
from rollgym.metrics import Summary
from rollgym.monitor.live_metrics import LiveMetrics
from rollgym.records import RecordState
from rollgym.store import InputsIdentity, journal_paths, read_records


def recount(directory: Path, takes: Callable[[int], bool] | None = None) -> LiveMetrics:
    """Count every record of a run, or of the tasks whose index `takes` accepts.

    Raises CorruptJournalError, StorageError.
    """
    metrics = LiveMetrics()
    for entry, current in read_records(journal_paths(directory)):
        if takes is None or takes(entry.attempt.task):
            metrics.replay(
                entry.attempt, RecordState.CURRENT if current else RecordState.SUPERSEDED
            )
    return metrics


def coverage_of(inputs: InputsIdentity, summary: Summary) -> Coverage:
    """What a whole run came to, as the collection that would find nothing left to do tells it."""
    counts = summary.counts
    return Coverage(
        expected=inputs.rollouts,
        completed=counts.completed,
        failed=counts.failed,
        omitted=counts.omitted,
        groups=inputs.tasks,
        groups_complete=summary.groups.complete,
        resumed=counts.completed + counts.failed + counts.omitted,
        attempts=0,
        abandoned=0,
        dropped_events={},
    )
