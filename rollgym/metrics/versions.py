"""Policy versions over a run: turns and rollouts of each, and how stale the rollouts are.

*Turns* are those of all attempts, and a turn of two versions counts for both. *Rollouts* are the
completed ones, by their oldest turn. When a version was first used decides its place where versions
are not numbers (`rollgym.records.version`); the earliest time does not depend on the order of
adding. Of more than `VERSION_LIMIT` versions, those with the longest and then largest texts are
kept, which are the largest numbers, and the rollouts of these alone are counted.
"""

from collections import Counter

from rollgym.metrics.summary import VersionCounts, VersionSummary
from rollgym.records import Attempt, Completed
from rollgym.records.version import VersionOrder, note_first_uses, versions_of

VERSION_LIMIT = 4096


class VersionTotals:
    """Counts of versions over the records added so far."""

    __slots__ = ("_first", "_rollouts", "_turns", "_unknown_rollouts", "_unknown_turns")

    def __init__(self) -> None:
        self._first: dict[str, float] = {}
        self._turns: Counter[str] = Counter()
        self._rollouts: Counter[frozenset[str]] = Counter()
        self._unknown_turns = 0
        self._unknown_rollouts = 0

    def add(self, attempt: Attempt) -> None:
        """Count the turns of an attempt."""
        turns = attempt.outcome.turns
        if not turns:  # as in nearly all runs
            return
        if not any(turn.version or turn.parts for turn in turns):
            self._unknown_turns += len(turns)
            return
        note_first_uses(self._first, turns, attempt.started)
        for turn in turns:
            names = set(turn.versions)
            self._turns.update(names - {""})
            self._unknown_turns += "" in names
        while len(self._first) > VERSION_LIMIT:
            self._forget()

    def add_completed(self, outcome: Completed) -> None:
        """Count a completed rollout, whose attempt is added too."""
        versions = versions_of(outcome.turns) if outcome.turns else None
        if versions is None:
            self._unknown_rollouts += 1
        elif versions <= self._first.keys():  # none of them was forgotten
            self._rollouts[versions] += 1

    def summary(self) -> VersionSummary | None:
        """The numbers; None where no version is known."""
        if not self._first:
            return None
        order = VersionOrder.of_first_uses(self._first)
        newest = order.newest
        rollouts: Counter[str] = Counter()
        staleness: Counter[int] = Counter()
        several = 0
        for versions, count in self._rollouts.items():
            oldest = order.oldest(versions)
            rollouts[oldest] += count
            staleness[order.distance(oldest, newest)] += count
            several += count if len(versions) > 1 else 0
        return VersionSummary(
            newest=newest,
            versions=tuple(
                VersionCounts(version, self._turns[version], rollouts[version])
                for version in order.sorted()
            ),
            staleness=dict(sorted(staleness.items())),
            rollouts_of_several=several,
            unknown_rollouts=self._unknown_rollouts,
            unknown_turns=self._unknown_turns,
        )

    def _forget(self) -> None:
        """Forget the first version in the order of lengths and texts."""
        gone = min(self._first, key=lambda each: (len(each), each))
        del self._first[gone], self._turns[gone]
        self._rollouts = Counter(
            {versions: n for versions, n in self._rollouts.items() if gone not in versions}
        )
