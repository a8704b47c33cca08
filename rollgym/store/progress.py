"""The outcome of each rollout of a run: what was there at the beginning, and what is added.

A resumed collection starts from it, and the collection keeps it up to date. So a rollout that
failed can be reopened at any time, whichever process recorded the failure. A reopened rollout
keeps its old outcome until a new one replaces it.

Memory: a few bits per rollout (`KeySet`), and a few words for each rollout that has attempts but is
not completed.
"""

from collections.abc import Callable, Collection, Iterator
from enum import StrEnum
from functools import cache
from itertools import groupby
from operator import itemgetter

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
    RolloutKey,
)

_CHUNK_BITS = 9
_CHUNK_BYTES = 1 << (_CHUNK_BITS - 3)
_CHUNK_MASK = (1 << _CHUNK_BITS) - 1

OutcomeCause = FailureKind | OmitReason
"""Why a rollout is not completed."""


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

    def discard(self, task: int, repeat: int) -> bool:
        """Remove a key and return whether it was there."""
        if not self.has(task, repeat):
            return False
        bit = task & _CHUNK_MASK
        self._chunks[repeat, task >> _CHUNK_BITS][bit >> 3] &= ~(1 << (bit & 7))
        self._size -= 1
        return True

    def has(self, task: int, repeat: int) -> bool:
        chunk = self._chunks.get((repeat, task >> _CHUNK_BITS))
        if chunk is None:
            return False
        bit = task & _CHUNK_MASK
        return bool(chunk[bit >> 3] >> (bit & 7) & 1)

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """The keys as (task, repeat), in this order. Do not change the set meanwhile."""
        places = sorted((number, repeat) for repeat, number in self._chunks)
        for number, same in groupby(places, key=itemgetter(0)):
            keys = [key for _, repeat in same for key in self._keys_of(repeat, number)]
            yield from sorted(keys)

    def _keys_of(self, repeat: int, number: int) -> Iterator[tuple[int, int]]:
        bits = int.from_bytes(self._chunks[repeat, number], "little")
        while bits:
            lowest = bits & -bits
            yield (number << _CHUNK_BITS) + lowest.bit_length() - 1, repeat
            bits ^= lowest


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


def cause_of(outcome: Outcome) -> OutcomeCause | None:
    """Why a rollout is not completed; None for one that is."""
    match outcome:
        case Completed():
            return None
        case Failed(failure=failure):
            return failure.kind
        case Omitted(reason=reason):
            return reason


@cache
def reduced(cause: OutcomeCause) -> Failed | Omitted:
    """An outcome with nothing but its cause; the same object for all, to save memory."""
    if isinstance(cause, FailureKind):
        return Failed(Failure.make(cause, ""))
    return Omitted(cause)


class Prior(msgspec.Struct, gc=False):
    """The earlier attempts of a rollout that is not completed.

    `attempts` is the number of its last attempt, `crashes` how many of them froze or killed the
    process, `cuts` how many were cut and use up no retries. `cause` is that of its outcome, if it
    has one.
    """

    attempts: int = 0
    crashes: int = 0
    cuts: int = 0
    cause: OutcomeCause | None = None


class Progress:
    """The outcome of each rollout, and the earlier attempts of those that are not completed.

    `tokens` and `cost` (in picodollars) are those of the existing attempts. `groups_complete` is
    the number of tasks whose repeats are all completed.
    """

    def __init__(self, reopen: Collection[Status] = ()) -> None:
        """`reopen` names the outcomes whose rollouts run again."""
        if Status.COMPLETED in reopen:
            raise ValueError("a completed rollout is never run again")
        self.groups_complete = 0
        self.tokens = 0
        self.cost = 0
        self._reopen = frozenset(reopen)
        self._sets = {status: KeySet() for status in Status}
        self._priors: dict[tuple[int, int], Prior] = {}
        self._reopened = KeySet()
        self._waiting = KeySet()
        self._reruns: dict[int, int] = {}
        self._is_sealed: Callable[[int], bool] = lambda _task: False

    def note(self, attempt: Attempt, *, current: bool) -> RecordState:
        """Add an existing record and return its state; `current` as `read_records` reports it."""
        self.tokens += attempt.outcome.tokens
        self.cost += attempt.outcome.cost
        if attempt.final and not current:
            self._add_prior(attempt)
            self.count_rerun(attempt.task)
            return RecordState.SUPERSEDED
        self.add(attempt)
        if attempt.final and status_of(attempt.outcome) in self._reopen:
            self._mark_reopened(attempt.key)
            return RecordState.REOPENED
        return RecordState.CURRENT if current else RecordState.SUPERSEDED

    def add(self, attempt: Attempt) -> None:
        """Add a record; a final one replaces the outcome of its rollout."""
        key, outcome = (attempt.task, attempt.repeat), attempt.outcome
        if attempt.final and self._reopened and self._reopened.discard(*key):
            self._sets[Status.FAILED].discard(*key)
            self._sets[Status.OMITTED].discard(*key)
        if isinstance(outcome, Completed):
            self._sets[Status.COMPLETED].add(*key)
            if self._priors:
                self._priors.pop(key, None)
            self.groups_complete += self._has_completed_all(attempt)
            return
        prior = self._add_prior(attempt)
        if attempt.final:
            self._sets[status_of(outcome)].add(*key)
            if prior is not None:
                prior.cause = cause_of(outcome)

    def count(self, status: Status) -> int:
        """How many rollouts have this outcome, including reopened ones."""
        return len(self._sets[status])

    def status(self, task: int, repeat: int) -> Status | None:
        """The outcome of a rollout, including a reopened one."""
        for status, keys in self._sets.items():
            if keys.has(task, repeat):
                return status
        return None

    def cause(self, task: int, repeat: int) -> OutcomeCause | None:
        """Why the outcome of a rollout is not a completion, if it has such an outcome."""
        prior = self._priors.get((task, repeat))
        return prior.cause if prior else None

    # Reopening.

    @property
    def reopened(self) -> int:
        """How many outcomes are to be replaced."""
        return len(self._reopened)

    @property
    def waiting(self) -> int:
        """How many reopened rollouts were not taken yet."""
        return len(self._waiting)

    def is_reopened(self, task: int, repeat: int) -> bool:
        """Whether the outcome of this rollout is to be replaced."""
        return self._reopened.has(task, repeat)

    def is_over(self, task: int, repeats: int) -> bool:
        """Whether all repeats of a task have an outcome, and none is to be replaced."""
        return all(
            self.status(task, repeat) is not None and not self.is_reopened(task, repeat)
            for repeat in range(repeats)
        )

    def reopen(
        self, statuses: Collection[Status], where: Callable[[RolloutKey], bool] | None = None
    ) -> int:
        """Reopen the rollouts with these outcomes, or those of them `where` accepts.

        Returns how many were reopened; those that are open already are not. Each waits for `take`.
        """
        before = self.reopened
        is_sealed = self._is_sealed
        for status in (Status.FAILED, Status.OMITTED):
            for key in self._sets[status] if status in statuses else ():
                if self._reopened.has(*key) or is_sealed(key[0]):
                    continue
                if where is None or where(RolloutKey(*key)):
                    self._mark_reopened(RolloutKey(*key))
        return self.reopened - before

    def seal(self, is_sealed: Callable[[int], bool]) -> None:
        """Reopen no rollout of a task for which this is true, even if a user asks for it."""
        self._is_sealed = is_sealed

    def refill(self, key: RolloutKey) -> None:
        """Reopen a rollout, whose outcome was just added, for a caller that runs it itself."""
        self._reopened.add(key.task, key.repeat)

    def count_rerun(self, task: int) -> None:
        """Count that a rollout of this task is reopened."""
        self._reruns[task] = self.reruns(task) + 1

    def reruns(self, task: int) -> int:
        """How often rollouts of this task were reopened, over the whole run."""
        return self._reruns.get(task, 0)

    def take(self, task: int, repeat: int) -> Prior | None:
        """The earlier attempts of a rollout that has no outcome, or that waits reopened.

        None for all others. A reopened one no longer waits.
        """
        if self._waiting.discard(task, repeat):
            return self._priors[task, repeat]
        if self.status(task, repeat) is None:
            return self._priors.get((task, repeat)) or Prior()
        return None

    def take_reopened(self, task: int, repeat: int) -> Prior | None:
        """As `take`, for a rollout that waits reopened only."""
        return self.take(task, repeat) if self._waiting.has(task, repeat) else None

    def _mark_reopened(self, key: RolloutKey) -> None:
        self._reopened.add(key.task, key.repeat)
        self._waiting.add(key.task, key.repeat)
        self.count_rerun(key.task)

    # Counting.

    def _has_completed_all(self, attempt: Attempt) -> bool:
        """Check the next repeat first: it is the one most often missing."""
        if attempt.repeats == 1:
            return True
        completed, task = self._sets[Status.COMPLETED], attempt.task
        others = range(attempt.repeat + 1, attempt.repeat + attempt.repeats)
        return all(completed.has(task, repeat % attempt.repeats) for repeat in others)

    def _add_prior(self, attempt: Attempt) -> Prior | None:
        """Note an attempt of a rollout that is not completed, or not yet."""
        key, outcome = (attempt.task, attempt.repeat), attempt.outcome
        if isinstance(outcome, Completed) or self._sets[Status.COMPLETED].has(*key):
            return None
        prior = self._priors.get(key)
        if prior is None:
            prior = self._priors[key] = Prior()
        prior.attempts = max(prior.attempts, attempt.attempt)
        match outcome:
            case Failed():
                prior.crashes += outcome.failure.kind is FailureKind.CRASH
            case Omitted():
                prior.cuts += not attempt.final
        return prior
