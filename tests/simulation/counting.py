"""The metrics of a run in the ways there are to come by them; all must agree."""

from collections.abc import Collection, Iterable
from pathlib import Path

from rollgym.metrics import Metrics
from rollgym.records import Completed, RecordState, decode_attempt
from rollgym.store import journal_paths, read_records
from tests.simulation.records import Key, Record


def recount(directory: Path, tasks: Collection[int]) -> Metrics:
    """From all journals of a run, what they hold of these tasks."""
    metrics = Metrics()
    for entry, current in read_records(journal_paths(directory)):
        if entry.attempt.task in tasks:
            metrics.add(entry.attempt, RecordState.CURRENT if current else RecordState.SUPERSEDED)
    return metrics


def add_live(metrics: Metrics, acknowledged: Iterable[Record], before: dict[Key, Record]) -> None:
    """As a front door does while the collection runs, on top of what was replayed to it."""
    outcomes = dict(before)
    for record in acknowledged:
        replaced = outcomes.get(record.key) if record.final else None
        if record.final:
            outcomes[record.key] = record
        if replaced is not None:
            outcome = decode_attempt(replaced.line).outcome
            assert not isinstance(outcome, Completed)
            metrics.retract(outcome, decode_attempt(record.line))
        metrics.add(decode_attempt(record.line))
