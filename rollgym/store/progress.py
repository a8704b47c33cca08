"""The outcomes that a run has already: the state from which a resumed collection starts.

Memory: a few bits per rollout (`KeySet`), and a few words for each rollout that has attempts but
must still run.
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
    RecordState,
)

_CHUNK_BITS = 9
_CHUNK_BYTES = 1 << (_CHUNK_BITS - 3)
_CHUNK_MASK = (1 << _CHUNK_BITS) - 1


class KeySet:
    """A set of rollout keys in chunks of bits; a million of them need little memory.

    With dense task indexes a key takes a few bits; with scattered ones, a few hundred bytes.
    """

    __slots__ = ("_chunks", "_size")

    def __init__(self) -> None:
        self._chunks: dict[tuple[int, int], bytearray] = {}
        self._size = 0

    def add(self, task: int, repeat: int) -> bool:
        """Add a key and return whether it is new."""
        position = (repeat, task >> _CHUNK_BITS)
        chunk = self._chunks.get(position)
        if chunk is None:
            chunk = self._chunks[position] = bytearray(_CHUNK_BYTES)
        bit = task & _CHUNK_MASK
        if chunk[bit >> 3] >> (bit & 7) & 1:
            return False
        chunk[bit >> 3] |= 1 << (bit & 7)
        self._size += 1
        return True

    def has(self, task: int, repeat: int) -> bool:
        chunk = self._chunks.get((repeat, task >> _CHUNK_BITS))
        if chunk is None:
            return False
        bit = task & _CHUNK_MASK
        return bool(chunk[bit >> 3] >> (bit & 7) & 1)

    def __len__(self) -> int:
        return self._size


class Status(StrEnum):
    """The outcome of a rollout, by name."""

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
    """The earlier attempts of a rollout that must still run.

    `attempts` is the number of its last attempt, `crashes` how many of them froze or killed the
    process. `reopened` is the outcome that a new one will replace, reduced to the kind of failure
    or the reason of the omission.
    """

    attempts: int = 0
    crashes: int = 0
    reopened: Failed | Omitted | None = None


@cache
def _reduced(cause: FailureKind | OmitReason) -> Failed | Omitted:
    """An outcome with nothing but its cause; the same object for all, to save memory."""
    if isinstance(cause, FailureKind):
        return Failed(Failure.make(cause, ""))
    return Omitted(cause)


class Progress:
    """The outcome of each rollout, and the earlier attempts of those that must still run.

    `tokens` and `cost` (in picodollars) are those of all attempts.
    """

    def __init__(self, reopen: Collection[Status] = ()) -> None:
        """`reopen` names the outcomes whose rollouts run again."""
        if Status.COMPLETED in reopen:
            raise ValueError("a completed rollout is never run again")
        self.reopened = 0
        self.groups_complete = 0
        self.tokens = 0
        self.cost = 0
        self._reopen = frozenset(reopen)
        self._sets = {status: KeySet() for status in Status}
        self._priors: dict[tuple[int, int], Prior] = {}

    def note(self, attempt: Attempt, *, current: bool) -> RecordState:
        """Add a record and return its state; `current` as `read_records` reports it."""
        key = (attempt.task, attempt.repeat)
        self.tokens += attempt.outcome.tokens
        self.cost += attempt.outcome.cost
        if attempt.final and current:
            outcome, status = attempt.outcome, status_of(attempt.outcome)
            self._sets[status].add(*key)
            if isinstance(outcome, Completed):
                self.groups_complete += self._has_completed_all(attempt)
            elif status in self._reopen:
                prior = self._history(key, attempt)
                prior.reopened = _reduced(
                    outcome.failure.kind if isinstance(outcome, Failed) else outcome.reason
                )
                self.reopened += 1
                return RecordState.REOPENED
            self._priors.pop(key, None)
        elif key in self._priors or self.status(*key) is None:
            self._history(key, attempt)
        return RecordState.CURRENT if current else RecordState.SUPERSEDED

    def count(self, status: Status) -> int:
        """How many rollouts have this outcome, including reopened ones."""
        return len(self._sets[status])

    def status(self, task: int, repeat: int) -> Status | None:
        """The outcome of a rollout, including a reopened one."""
        for status, keys in self._sets.items():
            if keys.has(task, repeat):
                return status
        return None

    def pop_prior(self, task: int, repeat: int) -> Prior | None:
        """Remove and return the earlier attempts of a rollout."""
        return self._priors.pop((task, repeat), None)

    def _has_completed_all(self, attempt: Attempt) -> bool:
        """Check the next repeat first: it is the one most often missing."""
        completed, task = self._sets[Status.COMPLETED], attempt.task
        others = range(attempt.repeat + 1, attempt.repeat + attempt.repeats)
        return all(completed.has(task, repeat % attempt.repeats) for repeat in others)

    def _history(self, key: tuple[int, int], attempt: Attempt) -> Prior:
        prior, outcome = self._priors.setdefault(key, Prior()), attempt.outcome
        prior.attempts = max(prior.attempts, attempt.attempt)
        if isinstance(outcome, Failed) and outcome.failure.kind is FailureKind.CRASH:
            prior.crashes += 1
        return prior
