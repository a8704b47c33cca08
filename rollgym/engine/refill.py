"""Refilling groups: a rollout that failed or was omitted is run again, alone.

A group that lacks one of its repeats is worth little to a trainer, and running all repeats again
would waste the others. So a task has a budget: `Policy.refills` is how often its rollouts are
reopened, over the whole run. Each refilled rollout has a new retry budget. Its earlier outcome
stays on disk, and counts until the new one replaces it. When the budget is used up, the last
outcome stays, and says why the group is short.

*Not refilled* are stragglers, which were omitted so that the collection ends, and rollouts that
killed their process. While a collection stops, nothing is refilled; the next one does it.

*The budget survives a killed process*, because it is counted from the journal: each final record
after a rollout's first one is a refill that was used. A rollout that was reopened in another way
counts too.
"""

from collections.abc import Callable

from rollgym.records import Attempt, FailureKind, OmitReason, RolloutKey
from rollgym.store import Progress, Status, cause_of
from rollgym.store.progress import OutcomeCause

NOT_REFILLED = frozenset((OmitReason.STRAGGLER, FailureKind.CRASH))


class Refills:
    """Decides which rollouts of one collection are refilled."""

    def __init__(self, refills: int, progress: Progress, allowed: Callable[[], bool]) -> None:
        """`refills` is the budget of each task. `allowed` says whether any rollout may start."""
        self._refills = refills
        self._progress = progress
        self._allowed = allowed

    def reopen_earlier(self) -> int:
        """Reopen what earlier collections of the run left short; return how many rollouts."""
        if not self._refills:
            return 0
        return self._progress.reopen((Status.FAILED, Status.OMITTED), self._is_due)

    def refill(self, attempt: Attempt) -> bool:
        """Whether the rollout of this final record runs again. Counts it."""
        if not self._refills:
            return False
        cause = cause_of(attempt.outcome)
        if cause is None or not self._allowed() or not self._has_budget(attempt.task, cause):
            return False
        self._progress.count_rerun(attempt.task)
        return True

    def _is_due(self, key: RolloutKey) -> bool:
        return self._has_budget(key.task, self._progress.cause(key.task, key.repeat))

    def _has_budget(self, task: int, cause: OutcomeCause | None) -> bool:
        return cause not in NOT_REFILLED and self._progress.reruns(task) < self._refills
