"""The state of a pool: which groups are open, wait for a trainer, are leased, or are done.

A group is *open* until all its members have an outcome, *ready* when the filters let it pass,
*leased* while a trainer has it, and *done* when it was acknowledged or dropped. A lease that
ends without an acknowledgement makes the group ready again: delivery is at least once, with the
same id. A group that was delivered is never dropped.

The state is rebuilt from the journal and the delivery log. Leases are not kept: after a restart of
the pool, every group that is not acknowledged may be delivered again.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from rollgym.pool.delivery_log import DeliveryEntry, DeliveryEvent, DeliveryLog
from rollgym.pool.groups import Member, PoolGroup, Tally
from rollgym.pool.policy_versions import PolicyVersions
from rollgym.records import Attempt
from rollgym.store import KeySet
from rollgym.store.reader import JournalEntry

RECENT_VERSIONS = 5
STALE = "stale"
CLOCK_TICK = 0.002
"""How inexact the times of an attempt may be: event loops round them."""


class GroupLease(NamedTuple):
    """Who has a group, and until when, as a time of the event loop."""

    trainer: str
    until: float


class Acknowledgement(NamedTuple):
    """The ids that are acknowledged now or were before, and those of no delivered group."""

    acknowledged: list[str]
    unknown: list[str]


class PoolState:
    """Every change is written to the delivery log; `sync` it before anything is answered."""

    def __init__(self, log: DeliveryLog, size: int, wall_clock: Callable[[], float]) -> None:
        """`size` is the number of rollouts of a group."""
        self.versions = PolicyVersions()
        self.kept, self.dropped = Tally(), Tally()
        self.reasons: Counter[str] = Counter()
        self.acknowledged = 0
        self.useful = self.wasted = 0.0
        self.first_open = 0
        """No group before this one is open."""
        self._log = log
        self._size = size
        self._wall_clock = wall_clock
        self._groups: dict[int, PoolGroup] = {}
        self._ready: dict[int, None] = {}
        self._again: dict[int, None] = {}
        self._leases: dict[int, GroupLease] = {}
        self._acknowledged, self._dropped = KeySet(), KeySet()
        self._taken = [0]

    # Rebuilding.

    def load(self, records: Iterable[tuple[JournalEntry, bool]]) -> list[PoolGroup]:
        """Read the log and the journal. Returns the finished groups that the filters have not seen.

        The earlier `versions` must be known. Raises StoreError.
        """
        delivered: Counter[int] = Counter()
        taken: Counter[int] = Counter()
        for entry in self._log.read():
            match entry.event:
                case DeliveryEvent.DELIVERED:
                    taken[self.versions.number(entry.at)] += not delivered[entry.group]
                    delivered[entry.group] += 1
                case DeliveryEvent.ACKNOWLEDGED:
                    self.acknowledged += self._acknowledged.add(entry.group, 0)
                case DeliveryEvent.DROPPED:
                    self.reasons[entry.reason] += self._dropped.add(entry.group, 0)
        known = range(len(self.versions))
        self._taken = [taken[number] for number in known][-RECENT_VERSIONS - 1 :] or [0]
        self.dropped.groups = len(self._dropped)
        self.kept.groups = len(delivered)
        for record, current in records:
            attempt = record.attempt
            self._load(
                attempt, record.offset, current=attempt.final and current, delivered=delivered
            )
        for number, group in self._groups.items():
            group.deliveries = delivered[number]
            if delivered[number]:
                self._again[number] = None
                self._count_kept(group)
        while self.is_done(self.first_open):
            self.first_open += 1
        return [group for group in self._groups.values() if group.finished and not group.deliveries]

    def _load(
        self, attempt: Attempt, offset: int, *, current: bool, delivered: Counter[int]
    ) -> None:
        number = attempt.task
        if not self.is_done(number):
            self.note(attempt, offset, current=current)
            return
        member = Member.of(attempt, offset)
        kept = self._acknowledged.has(number, 0)
        if current:
            (self.kept if kept else self.dropped).add([member])
        if kept and current and member.reward is not None:
            self.useful += attempt.seconds
        else:
            self.wasted += attempt.seconds

    # Collecting.

    def group(self, number: int) -> PoolGroup:
        """The group of this number, which is not done."""
        if number not in self._groups:
            self._groups[number] = PoolGroup(number, self._size)
        return self._groups[number]

    def has(self, number: int) -> bool:
        """Whether a group was started and is not done."""
        return number in self._groups

    def note(self, attempt: Attempt, offset: int, *, current: bool) -> None:
        """An attempt was recorded; `current` says that it is the outcome of its rollout."""
        if self.is_decided(attempt.task):  # reopened while the filters looked at its group
            self.wasted += attempt.seconds
            return
        group = self.group(attempt.task)
        group.spent += attempt.seconds
        if current:
            group.members[attempt.repeat] = Member.of(attempt, offset)

    def unfinished(self, end: int) -> Iterator[int]:
        """The numbers before `end` of the groups that are to be collected further."""
        for number in range(self.first_open, end):
            group = self._groups.get(number)
            if not self.is_done(number) and not (group and group.finished):
                yield number

    def is_decided(self, number: int) -> bool:
        """Whether a group stays as it is: a trainer has had it, or it is done."""
        group = self._groups.get(number)
        return self.is_done(number) if group is None else group.deliveries > 0

    def add_ready(self, group: PoolGroup) -> None:
        """A finished group may be delivered."""
        self._ready[group.number] = None

    def drop(self, group: PoolGroup, reason: str) -> None:
        """A finished group is not delivered. Raises StorageError."""
        self._write(DeliveryEvent.DROPPED, group.number, reason=reason)
        self._dropped.add(group.number, 0)
        self.reasons[reason] += 1
        self.dropped.groups += 1
        self.dropped.add(group.members.values())
        self.wasted += group.spent
        del self._groups[group.number]

    # Delivering.

    def deliver(
        self,
        trainer: str,
        most: int,
        until: float,
        max_age: int | None,
        is_over: Callable[[PoolGroup], bool],
    ) -> list[PoolGroup]:
        """Lease groups to a trainer, those that were delivered before first.

        Groups that are older than `max_age` versions are dropped, unless a trainer has had them.
        A group that is not over, because one of its rollouts was reopened, is open again. Raises
        StorageError.
        """
        chosen = [self._groups[number] for number in list(self._again)[:most]]
        for number in list(self._ready):
            if len(chosen) >= most:
                break
            group = self._groups[number]
            if not is_over(group):
                del self._ready[number]
            elif max_age is not None and self.age(group) > max_age:
                del self._ready[number]
                self.drop(group, STALE)
            else:
                chosen.append(group)
        for group in chosen:
            self._again.pop(group.number, None)
            self._ready.pop(group.number, None)
            self._write(DeliveryEvent.DELIVERED, group.number, trainer=trainer)
            self._leases[group.number] = GroupLease(trainer, until)
            if not group.deliveries:
                self._taken[-1] += 1
                self.kept.groups += 1
                self._count_kept(group)
            group.deliveries += 1
        return chosen

    def take_back(self, groups: Iterable[PoolGroup]) -> None:
        """Groups did not reach their trainer, or its lease ended."""
        for group in groups:
            if self._leases.pop(group.number, None):
                self._again[group.number] = None

    def release(self, trainer: str) -> None:
        """The trainer has started again, without its groups."""
        leased = [number for number, lease in self._leases.items() if lease.trainer == trainer]
        self.take_back(self._groups[number] for number in leased)

    def expire(self, now: float) -> float | None:
        """Take back the leases that have ended; returns when the next one ends."""
        ended = [number for number, lease in self._leases.items() if lease.until <= now]
        self.take_back(self._groups[number] for number in ended)
        return min((lease.until for lease in self._leases.values()), default=None)

    def acknowledge(self, ids: Iterable[str], trainer: str) -> Acknowledgement:
        """A trainer does not need these groups again. Raises StorageError."""
        acknowledged, unknown = [], []
        for name in dict.fromkeys(ids):
            number = _number(name)
            group = self._groups.get(number)
            if group is not None and group.deliveries:
                self._write(DeliveryEvent.ACKNOWLEDGED, number, trainer=trainer)
                self._acknowledged.add(number, 0)
                self.acknowledged += 1
                self._leases.pop(number, None)
                self._again.pop(number, None)
                del self._groups[number]
            elif number < 0 or not self._acknowledged.has(number, 0):
                unknown.append(name)
                continue
            acknowledged.append(name)
        return Acknowledgement(acknowledged, unknown)

    # Versions.

    def add_version(self, version: str, at: float) -> None:
        """The policy has a version since then."""
        known = len(self.versions)
        self.versions.add(version, at)
        if known and len(self.versions) > known:
            self._taken = [*self._taken[-RECENT_VERSIONS:], 0]

    def versions_of(self, group: PoolGroup) -> list[str]:
        """The versions that made the completed members of a group, oldest first.

        They are those that the turns name. Where a turn does not say its version, they are all that
        the policy had during the attempt.
        """
        return self.versions.in_order(
            name for member in group.completed for name in self._member_versions(member)
        )

    def age(self, group: PoolGroup) -> int:
        """How many versions came after the oldest one of a group."""
        return max(map(self.versions.age, self.versions_of(group)), default=0)

    def _member_versions(self, member: Member) -> Iterable[str]:
        if member.versions is not None:
            return member.versions
        end = member.started + member.seconds
        return self.versions.between(member.started - CLOCK_TICK, end + CLOCK_TICK)

    # Counts.

    @property
    def undelivered(self) -> int:
        """The groups that wait for a trainer."""
        return len(self._ready) + len(self._again)

    @property
    def leased(self) -> int:
        return len(self._leases)

    @property
    def remaining(self) -> int:
        """The groups that were started and are not done."""
        return len(self._groups)

    @property
    def running(self) -> int:
        """The groups that were started and cannot be delivered yet."""
        return self.remaining - self.undelivered - self.leased

    @property
    def taken_now(self) -> int:
        """How many groups trainers took for the first time since the present version came."""
        return self._taken[-1]

    @property
    def taken_per_version(self) -> float | None:
        """The mean of the latest versions; None while there is only one."""
        earlier = self._taken[:-1]
        return sum(earlier) / len(earlier) if earlier else None

    def counts(self) -> dict[str, Any]:
        """The groups by what became of them."""
        return {
            "running": self.running,
            "undelivered": self.undelivered,
            "leased": self.leased,
            "acknowledged": self.acknowledged,
            "dropped": dict(self.reasons),
        }

    def numbers(self) -> dict[str, Any]:
        """What trainers got against what they did not get; versions and ages."""
        spent = self.useful + self.wasted
        waiting = [self._groups[number] for number in (*self._again, *self._ready)]
        return {
            "kept": self.kept.numbers(),
            "dropped": self.dropped.numbers(),
            "wasted": round(self.wasted / spent, 4) if spent else None,
            "policy_version": self.versions.current,
            "versions": len(self.versions),
            "staleness": max(map(self.age, waiting), default=None),
        }

    def _count_kept(self, group: PoolGroup) -> None:
        self.kept.add(group.members.values())
        self.useful += group.useful
        self.wasted += group.spent - group.useful

    def has_open(self, end: int) -> bool:
        """Whether a group before `end` was started and the filters have not decided on it."""
        return any(number < end and not self.is_filtered(number) for number in self._groups)

    def is_filtered(self, number: int) -> bool:
        """Whether the filters have decided on a group."""
        passed = number in self._ready or number in self._again or number in self._leases
        return passed or self.is_done(number)

    def is_done(self, number: int) -> bool:
        """Whether a group was acknowledged or dropped."""
        return self._acknowledged.has(number, 0) or self._dropped.has(number, 0)

    def _write(
        self, event: DeliveryEvent, group: int, *, trainer: str = "", reason: str = ""
    ) -> None:
        now = self._wall_clock()
        self._log.append(
            DeliveryEntry(event=event, at=now, group=group, trainer=trainer, reason=reason)
        )


def _number(name: str) -> int:
    """The number of a group by its id; -1 for other texts."""
    digits = name.removeprefix("g")
    plain = digits.isascii() and digits.isdecimal() and len(digits) < 19
    return int(digits) if plain and name == f"g{int(digits)}" else -1
