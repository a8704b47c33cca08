"""What a run has already: the state a resumed collection starts from.

A few bits per rollout (see `keyset`), and a few words for each that has history but must still run:
that is all the memory resuming takes.
"""

from collections.abc import Collection
from enum import StrEnum
from functools import cache

import msgspec

from rollgym.records import (
    Attempt,
    Completed,
    Failed,
    Failure,
    FailureKind,
    OmitReason,
    Omitted,
    Outcome,
)
from rollgym.store.keyset import KeySet


class Status(StrEnum):
    """An outcome by name."""

    COMPLETED = "completed"
    FAILED = "failed"
    OMITTED = "omitted"


def status_of(outcome: Outcome) -> Status:
    match outcome:
        case Completed():
            return Status.COMPLETED
        case Failed():
            return Status.FAILED
        case Omitted():
            return Status.OMITTED


class Prior(msgspec.Struct):
    """The history of a rollout that runs again.

    `attempts` numbers its last attempt. `reopened` is the outcome it has until it gets another, in
    brief: the kind of its failure or the reason of its omission.
    """

    attempts: int = 0
    reopened: Failed | Omitted | None = None


@cache
def _failed(kind: FailureKind) -> Failed:
    return Failed(Failure.make(kind, ""))


@cache
def _omitted(reason: OmitReason) -> Omitted:
    return Omitted(reason)


def _in_brief(outcome: Failed | Omitted) -> Failed | Omitted:
    """The same few objects for any number of outcomes."""
    match outcome:
        case Failed():
            return _failed(outcome.failure.kind)
        case Omitted():
            return _omitted(outcome.reason)


class Progress:
    """Outcomes by rollout, and the history of those without one."""

    def __init__(self, reopen: Collection[Status] = ()) -> None:
        """`reopen` names the outcomes that are to be replaced by running the rollout again."""
        if Status.COMPLETED in reopen:
            raise ValueError("a completed rollout is never run again")
        self.reopened = 0
        self.groups_complete = 0
        self._reopen = frozenset(reopen)
        self._sets = {status: KeySet() for status in Status}
        self._priors: dict[tuple[int, int], Prior] = {}

    def note(self, attempt: Attempt, *, stands: bool) -> bool:
        """Take in a record. Whether its rollout is thereby reopened."""
        key = (attempt.task, attempt.repeat)
        if attempt.final and stands:
            outcome, status = attempt.outcome, status_of(attempt.outcome)
            self._sets[status].add(*key)
            if isinstance(outcome, Completed):
                self.groups_complete += self._has_completed_all(attempt)
            elif status in self._reopen:
                prior = self._history(key, attempt.attempt)
                prior.reopened = _in_brief(outcome)
                self.reopened += 1
                return True
            self._priors.pop(key, None)
            return False
        if key in self._priors or self.status(*key) is None:
            self._history(key, attempt.attempt)
        return False

    def count(self, status: Status) -> int:
        """How many rollouts have this outcome, also those that are reopened."""
        return len(self._sets[status])

    def status(self, task: int, repeat: int) -> Status | None:
        """The outcome a rollout has, also one that is reopened."""
        for status, keys in self._sets.items():
            if keys.has(task, repeat):
                return status
        return None

    def take_prior(self, task: int, repeat: int) -> Prior | None:
        """The history of a rollout, which is the caller's from now on."""
        return self._priors.pop((task, repeat), None)

    def _has_completed_all(self, attempt: Attempt) -> bool:
        """From the next repeat on, which most often is the one that is missing."""
        completed, task = self._sets[Status.COMPLETED], attempt.task
        others = range(attempt.repeat + 1, attempt.repeat + attempt.repeats)
        return all(completed.has(task, repeat % attempt.repeats) for repeat in others)

    def _history(self, key: tuple[int, int], attempt: int) -> Prior:
        prior = self._priors.setdefault(key, Prior())
        prior.attempts = max(prior.attempts, attempt)
        return prior
