"""What was found about an episode, criterion by criterion, as the record of it keeps it.

A criterion that nobody asked about, because the reward was decided without it, says so: silence is
neither a pass nor a fail.
"""

from collections.abc import Iterable
from typing import Literal

import msgspec

from rollgym.records.failure import shorten

LONGEST_REASON = 2_000

Result = Literal["pass", "fail", "not_asked"]


class FactFinding(msgspec.Struct, frozen=True):
    """One fact of a rubric, and whether it holds."""

    fact: str
    verdict: Result
    reason: str


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """Whether an episode meets one criterion, and why; `facts` where the criterion has several."""

    verdict: Result
    reason: str
    facts: tuple[FactFinding, ...] = ()

    @classmethod
    def of(cls, passed: bool, reason: str) -> "Finding":
        return cls("pass" if passed else "fail", shorten(reason, LONGEST_REASON))

    @classmethod
    def of_facts(cls, facts: Iterable[FactFinding]) -> "Finding":
        """All of them hold, or the criterion is not met."""
        found = tuple(facts)
        failed = [fact for fact in found if fact.verdict == "fail"]
        if failed:
            return cls("fail", failed[0].reason, found)
        unasked = [fact for fact in found if fact.verdict == "not_asked"]
        if unasked or not found:
            return cls("not_asked", unasked[0].reason if unasked else "there is no fact", found)
        return cls("pass", "every fact holds", found)


class Blocking(msgspec.Struct, frozen=True):
    """Whether the site kept the visitor out."""

    verdict: Literal["blocked", "open", "not_asked"]
    reason: str

    @classmethod
    def of(cls, blocked: bool, reason: str) -> "Blocking":
        return cls("blocked" if blocked else "open", shorten(reason, LONGEST_REASON))


class Evaluation(msgspec.Struct, frozen=True, kw_only=True):
    """All that was found. `judge` says who judged: `truth:<verifier>` or `model:<name>`."""

    judge: str
    criteria: dict[str, Finding]
    blocking: Blocking

    @property
    def reward(self) -> float:
        """1 where every criterion is met; one that was not asked about is not met."""
        met = [finding.verdict == "pass" for finding in self.criteria.values()]
        return 1.0 if met and all(met) else 0.0

    @property
    def is_blocked(self) -> bool:
        return self.blocking.verdict == "blocked"

    def as_json(self) -> dict[str, object]:
        """As a verdict carries it: what JSON has, and nothing else."""
        plain: dict[str, object] = msgspec.json.decode(msgspec.json.encode(self))
        return plain
