"""Leaving out rollouts of old policy versions, when they are read.

A rollout counts by its oldest turn, so that none of its turns is staler than the limit. One with a
turn of an unknown version is left out, because nothing says that it is not stale. What the distance
between two versions is says `rollgym.records.version`.
"""

from array import array
from collections.abc import Iterable, Sequence

import msgspec

from rollgym.export.source import ExportError, RolloutPosition
from rollgym.records.version import PolicyTurn, VersionOrder, note_first_uses, versions_of

SHOWN = 8
UNKNOWN = "policy version unknown"
STALE = "stale"


class Staleness(msgspec.Struct, frozen=True):
    """At most `most` versions behind `version`; without one, behind the newest of the rollouts."""

    most: int
    version: str = ""


class StalenessFilter:
    """A limit for the rollouts of a source, whose versions are in this order."""

    def __init__(self, order: VersionOrder, limit: Staleness) -> None:
        """Raises ExportError for a version whose place is unknown."""
        version = limit.version or order.newest
        self.limit = Staleness(limit.most, version)
        """The limit, with the version that it counts from."""
        self._order = order
        if not order.versions:
            raise ExportError(
                "no turn of these rollouts has a policy version, so how stale they are is unknown: "
                "export them without a limit"
            )
        if order.place(version) is None:
            listed = ", ".join(order.sorted()[-SHOWN:])
            raise ExportError(
                f"{version!r} is not a policy version of these rollouts; the latest are: {listed}"
            )

    def problem(self, member: RolloutPosition) -> str | None:
        """Why a rollout is left out."""
        if member.versions is None:
            return UNKNOWN
        behind = self._order.distance(self._order.oldest(member.versions), self.limit.version)
        return STALE if behind > self.limit.most else None

    def fresh(self, members: Sequence[RolloutPosition]) -> list[RolloutPosition]:
        """The rollouts that are not left out."""
        return [member for member in members if self.problem(member) is None]


class RolloutVersions:
    """The versions of the rollouts of a source, a few bytes for each of them."""

    def __init__(self) -> None:
        self._known: dict[frozenset[str] | None, int] = {}
        self._listed: list[frozenset[str] | None] = []
        self._of_rollout = array("l")
        self._first: dict[str, float] = {}

    def add(self, turns: Iterable[PolicyTurn], started: float) -> None:
        """Add the next rollout; `started` is when its attempt began."""
        turns = tuple(turns)
        note_first_uses(self._first, turns, started)
        versions = versions_of(turns)
        number = self._known.setdefault(versions, len(self._listed))
        if number == len(self._listed):
            self._listed.append(versions)
        self._of_rollout.append(number)

    def __getitem__(self, rollout: int) -> frozenset[str] | None:
        return self._listed[self._of_rollout[rollout]]

    def order(self) -> VersionOrder:
        """The order of all versions: without numbers, that of their first uses."""
        return VersionOrder.of_first_uses(self._first)
