"""What is known of a whole simulation when it is over: the material of the invariants."""

from collections.abc import Iterable
from enum import StrEnum
from functools import cached_property

from rollgym.engine import Coverage
from rollgym.metrics import Summary
from rollgym.store import MergeReport
from tests.simulation.log import Acknowledged, Ended, Event, Started, Written
from tests.simulation.plan import Intrusion, Life, Plan
from tests.simulation.records import Key, Record, current_records, parse_journals


class Ending(StrEnum):
    """How a life ended."""

    RETURNED = "returned"
    DIED = "died"
    STORAGE = "lost its disk"
    STUCK = "stuck on deaf workers"
    CANCELLED = "was cancelled"
    BROKEN = "broke"


class Refusal:
    """What became of a command with another identity."""

    def __init__(self, intrusion: Intrusion, message: str | None, *, changed: bool) -> None:
        self.intrusion = intrusion
        self.message = message
        self.changed = changed


class Chapter:
    """One life: what was on disk before and after it, and what happened in between."""

    def __init__(
        self,
        *,
        number: int,
        life: Life,
        before: dict[str, bytes],
    ) -> None:
        self.number = number
        self.life = life
        self.before_bytes = before
        self.after_bytes: dict[str, bytes] = before
        self.events: list[Event] = []
        self.ending = Ending.BROKEN
        self.error: BaseException | None = None
        self.coverage: Coverage | None = None
        self.opened = False
        self.seconds = 0.0
        self.complaints: list[str] = []
        self.changes: list[str] = []
        self.fault: str | None = None
        self.torn = False
        self.refusal: Refusal | None = None
        self.live_summary: Summary | None = None
        self.recounted_summary: Summary | None = None

    @cached_property
    def before(self) -> list[Record]:
        return parse_journals(self.before_bytes)

    @cached_property
    def after(self) -> list[Record]:
        return parse_journals(self.after_bytes)

    @cached_property
    def current_before(self) -> dict[Key, Record]:
        return current_records(self.before)

    @cached_property
    def current_after(self) -> dict[Key, Record]:
        return current_records(self.after)

    @cached_property
    def starts(self) -> list[Started]:
        return [event for event in self.events if isinstance(event, Started)]

    @cached_property
    def ends(self) -> dict[tuple[Key, int], Ended]:
        return {
            (event.key, event.attempt): event for event in self.events if isinstance(event, Ended)
        }

    @cached_property
    def written(self) -> list[Written]:
        return [event for event in self.events if isinstance(event, Written)]

    @cached_property
    def acknowledged(self) -> list[Acknowledged]:
        return [event for event in self.events if isinstance(event, Acknowledged)]

    def reopened(self, key: Key) -> bool:
        """Whether the rollout had an outcome that this life was to replace."""
        record = self.current_before.get(key)
        return record is not None and record.status in self.life.reopen

    def resolved_before(self, keys: Iterable[Key]) -> set[Key]:
        """The rollouts with an outcome that must not run in this life."""
        return {key for key in keys if key in self.current_before and not self.reopened(key)}


class Merging:
    """What merging the run (and its fork) gave."""

    def __init__(
        self,
        *,
        sources: list[Record],
        merged: list[Record],
        superseded: list[Record],
        report: MergeReport,
        reordered: bool,
        resumed: Chapter,
        run_summary: Summary,
        merged_summary: Summary,
    ) -> None:
        self.sources = sources
        self.merged = merged
        self.superseded = superseded
        self.report = report
        self.reordered = reordered
        self.resumed = resumed
        self.run_summary = run_summary
        self.merged_summary = merged_summary


class Story:
    """A simulation from its first life to its last."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.chapters: list[Chapter] = []
        self.fork: Chapter | None = None
        self.merging: Merging | None = None

    @property
    def last(self) -> Chapter:
        return self.chapters[-1]
