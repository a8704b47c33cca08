"""Which rollouts with an outcome may run again in one life, as seen from outside the engine.

The command's option and a live request each allow one more outcome of every rollout that fits.
Refills allow as many as the task's budget, of which every outcome after a rollout's first one is a
part, whatever caused it.
"""

from collections import Counter

from tests.simulation.controls import Change
from tests.simulation.records import Key, Record
from tests.simulation.story import Chapter

NOT_REFILLED = ("straggler", "crash")


def reruns_by_task(records: list[Record]) -> Counter[int]:
    """How many outcomes of each task's rollouts came after the first one."""
    finals = Counter(record.key for record in records if record.final)
    counts: Counter[int] = Counter()
    for (task, _), outcomes in finals.items():
        counts[task] += outcomes - 1
    return counts


def is_refilled(record: Record) -> bool:
    """Whether an outcome may be refilled at all."""
    return not record.completed and (record.failure or record.reason) not in NOT_REFILLED


class Reruns:
    """The outcomes that stay, while a life goes on."""

    def __init__(self, chapter: Chapter) -> None:
        self.outcomes = dict(chapter.current_before)
        self._life = chapter.life
        self._counts = reruns_by_task(chapter.before)
        self._requests = {"failed": 0, "omitted": 0}
        self._used: Counter[Key] = Counter()
        self._option = {key for key in self.outcomes if chapter.reopened(key)}

    def ask(self, what: str) -> None:
        """A live request was made."""
        self._requests["failed"] += what in (Change.RETRY_FAILED, Change.RETRY_ALL)
        self._requests["omitted"] += what == Change.RETRY_ALL

    def begin(self, key: Key) -> bool:
        """A rollout begins. Whether it may."""
        record = self.outcomes.pop(key, None)
        if record is None:
            return True
        if record.completed:
            return False
        self._counts[key[0]] += 1
        if is_refilled(record) and self._counts[key[0]] <= self._life.refills:
            return True
        allowed = self._requests[record.status] + (key in self._option)
        self._used[key] += 1
        return self._used[key] <= allowed
