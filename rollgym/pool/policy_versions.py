"""The versions of the policy that is trained, in the order in which they came.

The control log of the run has them (`rollgym.engine.Control`), so `rollgym ctl` may set them too.

A version is any text. Its age is the number of versions that came after it, so ages need no
numbering. What was running when a version came is known from its time: every attempt has the time
of its start and its duration.
"""

from bisect import bisect_right
from collections.abc import Iterable


class PolicyVersions:
    """Every version of one pool, with the wall-clock time at which it came."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._times: list[float] = []
        self._latest: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._names)

    @property
    def current(self) -> str:
        return self._names[-1] if self._names else ""

    def add(self, version: str, at: float) -> None:
        """A version came. The same one again changes nothing."""
        if version != self.current or not self._names:
            self._latest[version] = len(self._names)
            self._names.append(version)
            # A clock that was set back must not make a version older than the one before it.
            self._times.append(max([at, *self._times[-1:]]))

    def number(self, at: float) -> int:
        """The number of the version at a time, from 0."""
        return max(0, bisect_right(self._times, at) - 1)

    def between(self, start: float, end: float) -> list[str]:
        """The versions during a time."""
        return self._names[self.number(start) : self.number(end) + 1]

    def in_order(self, names: Iterable[str]) -> list[str]:
        """These versions, oldest first; those that were not announced come last."""
        return sorted(set(names), key=lambda name: (-self.age(name), name))

    def age(self, name: str) -> int:
        """How many versions came after this one; 0 where it was not announced."""
        return len(self._names) - 1 - self._latest.get(name, len(self._names) - 1)
