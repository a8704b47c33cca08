"""How a judge scores an episode: which questions are asked, in which order, and the results.

1. Without an answer there is nothing to reward, and nothing more is asked about it.
2. *Reference*: does the answer say what the reference answer says? It needs no screenshots, so it
   comes first.
3. The relevant screenshots are chosen, with one question for each (`judge_questions`).
4. *Criterion B*: does the answer contradict or exceed what the screenshots show?
5. *Criterion A*: does each fact of the rubric hold? Group by group. A task without a rubric has one
   fact: that it was done.

The reward is 1 if all of them pass. The first that fails decides, and the rest are recorded as
`not_asked`, which is neither a pass nor a fail. Then the judge is asked whether the site blocked
the agent, unless every criterion passed.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from rollgym.records import VerifierError, boundary
from rollgym.records.failure import shorten
from webgym.browser.contract.answers import Picture
from webgym.models.judge import BLOCKAGE, OPINION, RELEVANCE, JudgeModels, Relevance, facts_form
from webgym.models.judge_questions import (
    EpisodeScreenshot,
    LoadedScreenshot,
    ScreenshotChoice,
    ScreenshotStore,
    blocking_question,
    choose_screenshots,
    distinct_screenshots,
    facts_question,
    reference_question,
    relevance_question,
    support_question,
    wall_question,
)
from webgym.models.judge_settings import Purpose
from webgym.tasks.task import FactGroup, WebTask
from webgym.trajectory.records import EpisodeVerdict, Step, Trajectory

LONGEST_REASON = 2_000
ANSWER = "answer"
REFERENCE = "reference_answer"
CRITERION_B = "criterion_b"
CRITERION_A = "criterion_a"
BLOCKED_ENDING = "blocked"
BLOCKING_SCREENSHOTS = 3
MAX_RELEVANCE_QUESTIONS = 4
"""Concurrent questions about screenshots of one episode; more would use too much memory."""

_DECIDED = "the reward was decided before"

CriterionVerdict = Literal["pass", "fail", "not_asked"]


class FactOutcome(msgspec.Struct, frozen=True):
    """One fact of a rubric, and whether it holds."""

    fact: str
    verdict: CriterionVerdict
    reason: str


class CriterionResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """Whether an episode meets one criterion, and why; `facts` if the criterion has several."""

    verdict: CriterionVerdict
    reason: str
    facts: tuple[FactOutcome, ...] = ()

    @classmethod
    def of(cls, passed: bool, reason: str) -> "CriterionResult":
        return cls("pass" if passed else "fail", shorten(reason, LONGEST_REASON))

    @classmethod
    def of_facts(cls, facts: Iterable[FactOutcome]) -> "CriterionResult":
        """The criterion is met if all facts hold."""
        found = tuple(facts)
        failed = [fact for fact in found if fact.verdict == "fail"]
        if failed:
            return cls("fail", failed[0].reason, found)
        unasked = [fact for fact in found if fact.verdict == "not_asked"]
        if unasked or not found:
            return cls("not_asked", unasked[0].reason if unasked else "there is no fact", found)
        return cls("pass", "every fact holds", found)


class BlockingResult(msgspec.Struct, frozen=True):
    """Whether the site blocked the visitor."""

    verdict: Literal["blocked", "open", "not_asked"]
    reason: str

    @classmethod
    def of(cls, blocked: bool, reason: str) -> "BlockingResult":
        return cls("blocked" if blocked else "open", shorten(reason, LONGEST_REASON))


class Evaluation(msgspec.Struct, frozen=True, kw_only=True):
    """All results. `judge` says what scored: `truth:<verifier>` or `model:<name>`."""

    judge: str
    criteria: dict[str, CriterionResult]
    blocking: BlockingResult

    @property
    def reward(self) -> float:
        """1 if every criterion is met; a criterion that was not asked about is not met."""
        met = [finding.verdict == "pass" for finding in self.criteria.values()]
        return 1.0 if met and all(met) else 0.0

    @property
    def is_blocked(self) -> bool:
        return self.blocking.verdict == "blocked"

    def verdict(self, choice: ScreenshotChoice | None = None) -> EpisodeVerdict:
        """The verdict of an episode, with the screenshots that were judged.

        Raises VerifierError where nothing was asked that could decide the reward.
        """
        if not self.reward and all(each.verdict != "fail" for each in self.criteria.values()):
            raise VerifierError(
                f"{self.judge} was asked about nothing that decides the reward: "
                + "; ".join(f"{name}: {each.reason}" for name, each in self.criteria.items()),
                retryable=False,
            )
        return EpisodeVerdict(
            reward=self.reward,
            evaluation=msgspec.json.decode(msgspec.json.encode(self)),
            is_blocked=self.is_blocked,
            keypoint_step_ids=choice.step_ids if choice else (),
            judgments=choice.judgments if choice else {},
        )


_NO_CHOICE = ScreenshotChoice((), {})


class Assessor:
    """Scores episodes by their stored screenshots, at most `most` of each."""

    def __init__(self, judge: JudgeModels, screenshots: ScreenshotStore, most: int) -> None:
        self._judge = judge
        self._screenshots = screenshots
        self._most = most

    async def assess(self, task: WebTask, trajectory: Trajectory) -> EpisodeVerdict:
        """Raises VerifierError."""
        assessment = _EpisodeAssessment(self._judge, self._screenshots, task, trajectory)
        criteria, choice = await assessment.criteria(self._most)
        blocking = BlockingResult("not_asked", "every criterion passed")
        if any(finding.verdict != "pass" for finding in criteria.values()):
            blocking = await self.blocking(trajectory)
        name = f"model:{self._judge.name}"
        return Evaluation(judge=name, criteria=criteria, blocking=blocking).verdict(choice)

    async def blocking(self, trajectory: Trajectory) -> BlockingResult:
        """Whether the agent was blocked at the end of its episode. Raises VerifierError."""
        if trajectory.ending == BLOCKED_ENDING:
            return BlockingResult.of(True, "the episode ended at a wall")
        latest = distinct_screenshots(trajectory.steps)[-BLOCKING_SCREENSHOTS:]
        if not latest:
            return BlockingResult("not_asked", "there is no screenshot to look at")
        loaded = [await self._screenshots.load(screenshot) for screenshot in latest]
        found = await self._judge.ask(
            Purpose.BLOCKING_DETECTION, BLOCKAGE, blocking_question(loaded)
        )
        return BlockingResult.of(found.verdict == "blocked", found.reason)

    async def is_wall(self, picture: Picture) -> bool:
        """Whether this picture shows a wall. Raises VerifierError."""
        question = wall_question(picture.data_url)
        found = await self._judge.ask(Purpose.BLOCKING_DETECTION, BLOCKAGE, question)
        return found.verdict == "blocked"


class _EpisodeAssessment:
    """The assessment of one episode."""

    def __init__(
        self,
        judge: JudgeModels,
        screenshots: ScreenshotStore,
        task: WebTask,
        trajectory: Trajectory,
    ) -> None:
        self._judge = judge
        self._screenshots = screenshots
        self._task = task
        self._answer = (trajectory.answer or "").strip()
        self._ending = trajectory.ending
        self._steps: Sequence[Step] = trajectory.steps
        whole_task = FactGroup(task.task_name, ("The task was done, all of it.",))
        self._groups = task.rubric.groups or (whole_task,)

    async def criteria(self, most: int) -> tuple[dict[str, CriterionResult], ScreenshotChoice]:
        """The result of each criterion, and the chosen screenshots."""
        criteria = self._open_criteria()
        criteria[ANSWER] = self._by_answer()
        if criteria[ANSWER].verdict == "fail":
            return criteria, _NO_CHOICE
        if REFERENCE in criteria:
            criteria[REFERENCE] = await self._by_reference(self._task.definite_answer or "")
            if criteria[REFERENCE].verdict == "fail":
                return criteria, _NO_CHOICE
        choice = await self._choose(most)
        loaded = [await self._screenshots.load(screenshot) for screenshot in choice.screenshots]
        criteria[CRITERION_B] = await self._by_support(loaded)
        if criteria[CRITERION_B].verdict == "pass":
            criteria[CRITERION_A] = await self._by_facts(loaded)
        return criteria, choice

    def _open_criteria(self) -> dict[str, CriterionResult]:
        names = [ANSWER, CRITERION_B, CRITERION_A]
        if (self._task.definite_answer or "").strip():
            names.insert(1, REFERENCE)
        return {name: CriterionResult("not_asked", _DECIDED) for name in names}

    def _by_answer(self) -> CriterionResult:
        if self._answer:
            return CriterionResult.of(True, "the episode ended with an answer")
        why = f" ({self._ending})" if self._ending else ""
        return CriterionResult.of(False, f"the episode ended without an answer{why}")

    async def _by_reference(self, reference: str) -> CriterionResult:
        if _folded(self._answer) == _folded(reference):
            return CriterionResult.of(True, "the answer is the reference answer, word for word")
        question = reference_question(self._task, reference, self._answer)
        found = await self._judge.ask(Purpose.EVALUATION, OPINION, question)
        return CriterionResult.of(found.verdict == "pass", found.reason)

    async def _choose(self, most: int) -> ScreenshotChoice:
        screenshots = distinct_screenshots(self._steps)
        if not screenshots:
            raise VerifierError(
                "the judge needs screenshots, but the episode has none: let the browser take them",
                retryable=False,
            )
        relevance = await self._relevance(screenshots[:-1])
        return choose_screenshots(self._steps, screenshots, relevance, most)

    async def _relevance(self, screenshots: Sequence[EpisodeScreenshot]) -> dict[int, Relevance]:
        """The relevance of each screenshot, by step."""
        found: dict[int, Relevance] = {}
        waiting = list(screenshots)

        async def ask_next() -> None:
            while waiting:
                screenshot = waiting.pop(0)
                question = relevance_question(self._task, await self._screenshots.load(screenshot))
                found[screenshot.step] = await self._judge.ask(
                    Purpose.KEYPOINT_DETECTION, RELEVANCE, question
                )

        with boundary(VerifierError):
            async with asyncio.TaskGroup() as questions:
                for _ in screenshots[:MAX_RELEVANCE_QUESTIONS]:
                    questions.create_task(ask_next())
        return found

    async def _by_support(self, loaded: Sequence[LoadedScreenshot]) -> CriterionResult:
        question = support_question(self._task, self._answer, loaded)
        found = await self._judge.ask(Purpose.EVALUATION, OPINION, question)
        return CriterionResult.of(found.verdict == "pass", found.reason)

    async def _by_facts(self, loaded: Sequence[LoadedScreenshot]) -> CriterionResult:
        facts: list[FactOutcome] = []
        for group in self._groups:
            if any(fact.verdict == "fail" for fact in facts):
                facts += [FactOutcome(fact, "not_asked", _DECIDED) for fact in group.facts]
                continue
            question = facts_question(self._task, group, self._answer, loaded)
            form = facts_form(len(group.facts))
            found = await self._judge.ask(Purpose.EVALUATION, form, question)
            facts += [
                FactOutcome(fact, opinion.verdict, opinion.reason)
                for fact, opinion in zip(group.facts, found.facts, strict=True)
            ]
        return CriterionResult.of_facts(facts)


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())
