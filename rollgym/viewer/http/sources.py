"""What is said of a source in the list of all."""

import sqlite3

import msgspec

from rollgym.store import StorageError
from rollgym.viewer.index import IndexState
from rollgym.viewer.queries.coverage import Coverage, Totals
from rollgym.viewer.shelf import Shelf


class SourceInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One source in a line: how far its index is, and what is in it so far."""

    id: str
    title: str
    kind: str
    path: str
    live: bool
    state: IndexState
    coverage: Coverage
    mean_reward: float | None
    success_rate: float | None


def described(shelf: Shelf) -> SourceInfo:
    """Also of a source that cannot be read: its state says what is wrong."""
    try:
        state, totals = shelf.totals()
    except (StorageError, sqlite3.Error) as error:
        state, totals = _unknown(str(error)), _NOTHING
    source = shelf.source
    return SourceInfo(
        id=source.id,
        title=source.title,
        kind=source.kind,
        path=str(source.path),
        live=shelf.is_live,
        state=state,
        coverage=totals.coverage,
        mean_reward=totals.mean_reward,
        success_rate=totals.success_rate,
    )


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
