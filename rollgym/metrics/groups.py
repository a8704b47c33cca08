"""All groups of a run, in the memory of the open ones.

A group is held by itself only while it is open, that is, until every one of its repeats is
resolved. Then it is folded into a histogram and forgotten. Folding never changes a number: a group
still open enters the estimates with what it has so far, just as if it were folded now.

Every record of a task must carry the same `repeats`, and every rollout be resolved at most once.
"""

from typing import Self

from rollgym.metrics.group import Group
from rollgym.metrics.group_histogram import GroupHistogram
from rollgym.records import Attempt


class Groups:
    """The open groups by task, and the histogram of the closed ones."""

    __slots__ = ("_closed", "_open")

    def __init__(self) -> None:
        self._open: dict[int, Group] = {}
        self._closed = GroupHistogram()

    def add(self, attempt: Attempt, *, resolved: bool) -> None:
        """Count the end of one rollout; `resolved` says that there will be no other end of it."""
        group = self._group(attempt.task, attempt.repeats)
        group.add(attempt.outcome, resolved=resolved)
        self._close_if_full(attempt.task, group)

    def merge(self, other: Self) -> None:
        """Add the other's groups; two parts of one group that meet here become one."""
        self._closed.merge(other._closed)
        for task, theirs in other._open.items():
            ours = self._group(task, theirs.repeats)
            ours.merge(theirs)
            self._close_if_full(task, ours)

    def histogram(self) -> GroupHistogram:
        """Every group seen, open or closed."""
        everything = GroupHistogram()
        everything.merge(self._closed)
        for group in self._open.values():
            everything.fold(group)
        return everything

    def _group(self, task: int, repeats: int) -> Group:
        group = self._open.get(task)
        if group is None:
            group = self._open[task] = Group(repeats)
        return group

    def _close_if_full(self, task: int, group: Group) -> None:
        if group.full:
            self._closed.fold(self._open.pop(task))
