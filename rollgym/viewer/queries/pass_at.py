"""pass@k of what was judged, as `rollgym.metrics` estimates it, and on how many tasks it rests."""

from collections import Counter
from collections.abc import Sequence
from itertools import compress, repeat
from operator import is_not

import msgspec

from rollgym.metrics.group import Group
from rollgym.metrics.group_histogram import GroupHistogram


class PassAt(msgspec.Struct, frozen=True):
    """That at least one of k rollouts of a task succeeds, over the tasks that have k."""

    k: int
    value: float
    tasks: int


def pass_at(
    tasks: Sequence[int | str | None], successes: Sequence[int | None]
) -> tuple[PassAt, ...]:
    """For k = 1, 2, 4, ... and the most repeats of any task.

    One task and one success for each entry; those without either do not count.
    """
    judged = Counter(compress(tasks, map(is_not, successes, repeat(None))))
    judged.pop(None, None)
    succeeded = Counter(compress(tasks, successes))
    groups = Counter(zip(judged.values(), map(succeeded.get, judged, repeat(0)), strict=False))
    histogram, sizes = GroupHistogram(), Counter(judged.values())
    for (size, good), number in groups.items():
        group = Group(size)
        group.resolved = group.completed = size
        group.successes = good
        for _ in range(number):
            histogram.fold(group)
    return tuple(
        PassAt(k, value, sum(count for size, count in sizes.items() if size >= k))
        for k, value in histogram.pass_at_k().items()
    )
