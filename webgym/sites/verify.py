"""Judging an attempt at a task from its answer and the truth about its visitor.

The reward is 1 where every fact holds, else 0. An attempt of which the truth was lost is not judged
at all. A task behind a wall never has a reward; whether the visitor stood before it is said.
"""

from collections.abc import Mapping

import msgspec

from webgym.sites.errors import TruthError
from webgym.sites.tasks.checks import Check, Counts, Has, Is, Tells, at_path, failure_of
from webgym.sites.tasks.task import Task


class FactVerdict(msgspec.Struct, frozen=True):
    """Whether one fact holds, and if not, why."""

    fact: str
    passed: bool
    reason: str = ""


class Verdict(msgspec.Struct, frozen=True):
    """What an attempt is worth."""

    reward: int
    facts: tuple[FactVerdict, ...]
    blocked: bool = False

    @property
    def passed(self) -> list[FactVerdict]:
        return [fact for fact in self.facts if fact.passed]

    @property
    def failed(self) -> list[FactVerdict]:
        return [fact for fact in self.facts if not fact.passed]


def verify(task: Task, answer: str | None, truth: Mapping[str, object]) -> Verdict:
    """Judge the end of an attempt; `truth` is what `/_truth/SESSION` answered. Raises TruthError.

    `answer` is None where the attempt ended without one.
    """
    if task.blocked or any(isinstance(check, Tells | Is | Has | Counts) for check in task.truth):
        _require_whole(truth)
    if task.blocked:
        walls = at_path(truth, "captcha.walls")
        return Verdict(0, (), blocked=isinstance(walls, int) and walls > 0)
    facts = tuple(_judged(check, answer, truth) for check in task.truth)
    return Verdict(int(bool(facts) and all(fact.passed for fact in facts)), facts)


def _judged(check: Check, answer: str | None, truth: object) -> FactVerdict:
    failure = failure_of(check, answer, truth)
    return FactVerdict(check.fact, failure is None, failure or "")


def _require_whole(truth: Mapping[str, object]) -> None:
    if not isinstance(truth.get("session"), str):
        raise TruthError("this is not the truth about a session: ask /_truth/SESSION for it")
    if truth.get("lost"):
        raise TruthError(
            f"the sites forgot what session {truth['session']} had done: they were restarted, or "
            "had too many visitors; run the attempt again"
        )
