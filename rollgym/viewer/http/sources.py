"""What is said of a source in the list of all."""

import sqlite3
from time import time

import msgspec

from rollgym.store import StorageError
from rollgym.viewer.index import IndexState
from rollgym.viewer.queries.coverage import RATE_SECONDS, Coverage, Pace, Totals
from rollgym.viewer.shelf import Shelf


class SourceInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One source in a line: how far its index is, and what is in it so far.

    `started` is when the first rollout began and `latest` when the last one ended, as Unix times.
    `rate` is how many end in a minute, and `left_seconds` how long the others will take at that
    rate. Each is None where it cannot be told: of a run that does not go on, say.
    """

    id: str
    title: str
    kind: str
    path: str
    live: bool
    state: IndexState
    coverage: Coverage
    mean_reward: float | None
    success_rate: float | None
    started: float | None
    latest: float | None
    rate: float | None
    left_seconds: float | None


def described(shelf: Shelf) -> SourceInfo:
    """Also of a source that cannot be read: its state says what is wrong."""
    try:
        state, totals = shelf.totals()
    except (StorageError, sqlite3.Error) as error:
        state, totals = _unknown(str(error)), _NOTHING
    source, pace = shelf.source, totals.pace
    rate = pace.rate if shelf.is_live and not _is_stalled(pace) else None
    return SourceInfo(
        id=source.id,
        title=shelf.title,
        kind=source.kind,
        path=str(source.path),
        live=shelf.is_live,
        state=state,
        coverage=totals.coverage,
        mean_reward=totals.mean_reward,
        success_rate=totals.success_rate,
        started=pace.started,
        latest=pace.latest,
        rate=rate,
        left_seconds=_left_seconds(totals.coverage, rate) if shelf.is_live else None,
    )


def _is_stalled(pace: Pace) -> bool:
    """Whether nothing has ended for so long that the rate says nothing of now."""
    return pace.latest is not None and time() - pace.latest > RATE_SECONDS


def _left_seconds(coverage: Coverage, rate: float | None) -> float | None:
    if coverage.unresolved == 0:
        return 0.0
    return 60 * coverage.unresolved / rate if coverage.unresolved and rate else None


_NOTHING = Totals(
    Coverage(
        expected=None,
        completed=0,
        failed=0,
        omitted=0,
        unresolved=None,
        unreadable=0,
        retried=0,
        inputs=0,
    ),
    None,
    None,
)


def _unknown(problem: str) -> IndexState:
    return IndexState(version=0, entries=0, read=0, size=0, ready=False, problem=problem)
