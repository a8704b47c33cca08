"""What a judge makes of an episode: which questions are asked, in which order.

1. Without an answer there is nothing to reward, and nothing more is asked about it.
2. *Reference*: does the answer say what the reference answer says? Words alone, so it comes first.
3. Of the screenshots those are chosen that matter (`exhibits`), each by a question of its own.
4. *Criterion B*: does the answer contradict or exceed what the screenshots show?
5. *Criterion A*: does each fact of the rubric hold? Group by group. A task without a rubric has one
   fact: that it was done.

The reward is 1 where all of them pass. With the first that fails it is decided, and the rest are
recorded as not asked. Then it is asked whether the site kept the agent out, which is no fault of
the agent; whoever passed everything was not kept out.
"""

import asyncio
from collections.abc import Sequence

from rollgym.records import VerifierError, boundary
from webgym.browser.contract.answers import Picture
from webgym.models.judging.exhibits import (
    Album,
    Choice,
    Exhibit,
    Shown,
    choose,
    data_url,
    distinct_exhibits,
)
from webgym.models.judging.findings import Blocking, Evaluation, FactFinding, Finding
from webgym.models.judging.judge import Judge
from webgym.models.judging.prompts import (
    blocking_question,
    facts_question,
    glance_question,
    reference_question,
    relevance_question,
    support_question,
)
from webgym.models.judging.replies import BLOCKAGE, OPINION, RELEVANCE, Relevance, facts_form
from webgym.models.judging.settings import Purpose
from webgym.tasks import Fact, FactGroup, WebTask
from webgym.trajectory import Step, Trajectory, Verdict

ANSWER = "answer"
REFERENCE = "reference_answer"
CRITERION_B = "criterion_b"
CRITERION_A = "criterion_a"
BLOCKED_ENDING = "blocked"
BLOCKING_SCREENSHOTS = 3
LOOKS_AT_ONCE = 4
"""Screenshots of one episode whose relevance is asked for at a time: more would fill the memory."""

_DECIDED = "the reward was decided before"
_NO_CHOICE = Choice((), {})


class Assessor:
    """Judges episodes by their screenshots in `album`, at most `most` of each."""

    def __init__(self, judge: Judge, album: Album, most: int) -> None:
        self._judge = judge
        self._album = album
        self._most = most

    async def assess(self, task: WebTask, trajectory: Trajectory) -> Verdict:
        """Raises VerifierError."""
        hearing = _Hearing(self._judge, self._album, task, trajectory)
        criteria, choice = await hearing.criteria(self._most)
        blocking = Blocking("not_asked", "every criterion passed")
        if any(finding.verdict != "pass" for finding in criteria.values()):
            blocking = await self.blocking(trajectory)
        name = f"model:{self._judge.name()}"
        evaluation = Evaluation(judge=name, criteria=criteria, blocking=blocking)
        return Verdict(
            reward=evaluation.reward,
            evaluation=evaluation.as_json(),
            is_blocked=evaluation.is_blocked,
            keypoint_step_ids=choice.step_ids,
            judgments=choice.judgments,
        )

    async def blocking(self, trajectory: Trajectory) -> Blocking:
        """Whether the agent was kept out when its episode ended. Raises VerifierError."""
        if trajectory.ending == BLOCKED_ENDING:
            return Blocking.of(True, "the episode ended at a wall")
        latest = distinct_exhibits(trajectory.steps)[-BLOCKING_SCREENSHOTS:]
        if not latest:
            return Blocking("not_asked", "there is no screenshot to look at")
        shown = [await self._album.show(exhibit) for exhibit in latest]
        found = await self._judge.ask(
            Purpose.BLOCKING_DETECTION, BLOCKAGE, blocking_question(shown)
        )
        return Blocking.of(found.verdict == "blocked", found.reason)

    async def glance(self, picture: Picture) -> bool:
        """Whether this picture shows a wall. Raises VerifierError."""
        question = glance_question(data_url(picture))
        found = await self._judge.ask(Purpose.BLOCKING_DETECTION, BLOCKAGE, question)
        return found.verdict == "blocked"


class _Hearing:
    """The judging of one episode."""

    def __init__(self, judge: Judge, album: Album, task: WebTask, trajectory: Trajectory) -> None:
        self._judge = judge
        self._album = album
        self._task = task
        self._answer = (trajectory.answer or "").strip()
        self._ending = trajectory.ending
        self._steps: Sequence[Step] = trajectory.steps
        self._groups = task.rubric.groups or (_whole_task(task),)

    async def criteria(self, most: int) -> tuple[dict[str, Finding], Choice]:
        """What is found by each criterion, and the screenshots it was found by."""
        criteria = self._open_criteria()
        criteria[ANSWER] = self._by_answer()
        if criteria[ANSWER].verdict == "fail":
            return criteria, _NO_CHOICE
        if REFERENCE in criteria:
            criteria[REFERENCE] = await self._by_reference(self._task.definite_answer or "")
            if criteria[REFERENCE].verdict == "fail":
                return criteria, _NO_CHOICE
        choice = await self._choose(most)
        shown = [await self._album.show(exhibit) for exhibit in choice.exhibits]
        criteria[CRITERION_B] = await self._by_support(shown)
        if criteria[CRITERION_B].verdict == "pass":
            criteria[CRITERION_A] = await self._by_facts(shown)
        return criteria, choice

    def _open_criteria(self) -> dict[str, Finding]:
        names = [ANSWER, CRITERION_B, CRITERION_A]
        if (self._task.definite_answer or "").strip():
            names.insert(1, REFERENCE)
        return {name: Finding("not_asked", _DECIDED) for name in names}

    def _by_answer(self) -> Finding:
        if self._answer:
            return Finding.of(True, "the episode ended with an answer")
        why = f" ({self._ending})" if self._ending else ""
        return Finding.of(False, f"the episode ended without an answer{why}")

    async def _by_reference(self, reference: str) -> Finding:
        if _folded(self._answer) == _folded(reference):
            return Finding.of(True, "the answer is the reference answer, word for word")
        question = reference_question(self._task, reference, self._answer)
        found = await self._judge.ask(Purpose.EVALUATION, OPINION, question)
        return Finding.of(found.verdict == "pass", found.reason)

    async def _choose(self, most: int) -> Choice:
        exhibits = distinct_exhibits(self._steps)
        if not exhibits:
            raise VerifierError(
                "a judge needs screenshots, and the episode has none: let the browser take them",
                retryable=False,
            )
        relevance = await self._relevance(exhibits[:-1])
        return choose(self._steps, exhibits, relevance, most)

    async def _relevance(self, exhibits: Sequence[Exhibit]) -> dict[int, Relevance]:
        """By step."""
        found: dict[int, Relevance] = {}
        waiting = list(exhibits)

        async def look() -> None:
            while waiting:
                exhibit = waiting.pop(0)
                question = relevance_question(self._task, await self._album.show(exhibit))
                found[exhibit.step] = await self._judge.ask(
                    Purpose.KEYPOINT_DETECTION, RELEVANCE, question
                )

        with boundary(VerifierError):
            async with asyncio.TaskGroup() as looks:
                for _ in exhibits[:LOOKS_AT_ONCE]:
                    looks.create_task(look())
        return found

    async def _by_support(self, shown: Sequence[Shown]) -> Finding:
        question = support_question(self._task, self._answer, shown)
        found = await self._judge.ask(Purpose.EVALUATION, OPINION, question)
        return Finding.of(found.verdict == "pass", found.reason)

    async def _by_facts(self, shown: Sequence[Shown]) -> Finding:
        facts: list[FactFinding] = []
        for group in self._groups:
            if any(fact.verdict == "fail" for fact in facts):
                facts += [FactFinding(fact.text, "not_asked", _DECIDED) for fact in group.facts]
                continue
            question = facts_question(self._task, group, self._answer, shown)
            form = facts_form(len(group.facts))
            found = await self._judge.ask(Purpose.EVALUATION, form, question)
            facts += [
                FactFinding(fact.text, opinion.verdict, opinion.reason)
                for fact, opinion in zip(group.facts, found.facts, strict=True)
            ]
        return Finding.of_facts(facts)


def _whole_task(task: WebTask) -> FactGroup:
    return FactGroup(task.task_name, (Fact("The task was done, all of it."),))


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())
