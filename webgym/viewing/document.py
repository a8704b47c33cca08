"""The document of a web rollout: the record's bytes, and steps that are decoded on request.

The record is JSON: a line of a journal as it is, or the JSON of a trajectory in a `.pt` file.
Pointers refer to this JSON. A small part of every step is decoded at once, for the timeline and the
verdict; the rest of a step, which is most of it, when the step is requested.

A step is two turns of a chat: the observation, and the model's response.

The sections beside the steps are in `sections`.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import msgspec

from rollgym.records import NO_USAGE, ModelUse, Usage
from rollgym.records.version import TurnVersion
from rollgym.rollouts.token_rows import RolloutTokens, rollout_tokens
from rollgym.viewer.documents.conversation import version_words, with_turn_versions
from rollgym.viewer.documents.sections import (
    MODELS_TITLE,
    meaning_of,
    model_fields,
)
from rollgym.viewer.documents.texts import cut, names_in, value_at
from rollgym.viewer.documents.token_map import TokenDocument, TokenMap
from rollgym.viewer.summary import RecordSummary
from rollgym.viewer.values import ABSENT, fields_of, is_present, read, text_of
from rollgym.viewer.view import (
    FIELD_TEXT_LIMIT,
    STEPS_LIMIT,
    TEXT_LIMIT,
    TURNS_LIMIT,
    FailureView,
    RolloutView,
    SectionView,
    StepView,
    TimelineView,
    TurnView,
)
from webgym.trajectory.plain import rollout_row
from webgym.viewing.drawing import build_timeline
from webgym.viewing.records import (
    AttemptRecord,
    FailureRecord,
    RawSteps,
    RecordNames,
    ResponseUsage,
)
from webgym.viewing.sections import (
    VIDEO,
    final_section,
    judge_section,
    recordings_section,
    run_section,
    task_section,
)
from webgym.viewing.steps import StepReader

_TASK_NAME = "task_name"
PlainOf = Callable[[], dict[str, Any]]


class _OutlineReward(msgspec.Struct, frozen=True):
    evaluation: msgspec.Raw = ABSENT
    submission_judgment: str | None = None


class _OutlineResponse(ResponseUsage, frozen=True):
    tokens: msgspec.Raw = ABSENT
    token_ids: msgspec.Raw = ABSENT

    @property
    def has_tokens(self) -> bool:
        return is_present(self.tokens) or is_present(self.token_ids)


class _StepOutline(msgspec.Struct, frozen=True):
    """The part of every step that is decoded at once, under the same names in both forms."""

    timings: dict[str, float] = {}
    response: _OutlineResponse | None = None
    reward: _OutlineReward | None = None


_OUTLINE = msgspec.json.Decoder(_StepOutline)


class TrajectoryDocument(TokenDocument):
    """The document of a web rollout. Screenshots are separate files, not in the record."""

    def __init__(
        self,
        record: bytes,
        attempt: AttemptRecord[RawSteps],
        names: RecordNames,
        summary: RecordSummary,
        plain_of: PlainOf,
        *,
        size: int,
        has_images: bool,
    ) -> None:
        """`plain_of` returns the plain form of the trajectory; it may raise ValueError."""
        super().__init__(summary, size)
        self._record = record
        self._attempt = attempt
        self._names = names
        self._plain_of = plain_of
        self._steps = attempt.trajectory.steps or ()
        self._reader = StepReader(
            names,
            attempt.trajectory.interaction_mode,
            attempt.trajectory.keypoint_step_ids,
            has_images=has_images,
        )

    def view(self) -> RolloutView:
        asked = self._asked()
        return RolloutView(
            summary=self._summary,
            title=self._summary.facts.title or f"task {self._attempt.task}",
            bytes=self.size,
            turns=self._turn_count,
            steps=len(self._steps),
            prompt=() if asked is None else (asked,),
            failure=_failure_view(self._attempt.outcome.failure, self._names.failure),
            timeline=self._timeline(),
            usage=_counts(self._usage()),
            sections=tuple(self._sections()),
            has_tokens=any(each.response and each.response.has_tokens for each in self._outlines),
        )

    def steps(self, start: int, count: int) -> list[StepView]:
        wanted = self._steps[start : start + min(count, STEPS_LIMIT)]
        shown = [self._reader.step(raw, index) for index, raw in enumerate(wanted, start)]
        return with_turn_versions(shown, self._versions)

    def turns(self, start: int, count: int) -> list[TurnView]:
        stop = min(start + min(count, TURNS_LIMIT), self._turn_count)
        first, last = start // 2, (stop + 1) // 2
        turns = [
            turn
            for index, raw in enumerate(self._steps[first:last], first)
            for turn in self._reader.turns(raw, index)
        ]
        if stop > 2 * len(self._steps):
            turns += self._last_turns()
        return turns[start - 2 * first : stop - 2 * first]

    def raw(self, path: str) -> bytes:
        return bytes(value_at(msgspec.Raw(self._record), names_in(path)))

    def find(self, text: str) -> tuple[list[int], list[int]]:
        """Prompts are not searched, because they repeat the earlier steps."""
        turns: list[int] = []
        steps: list[int] = []
        for index, raw in enumerate(self._steps if text else ()):
            found = self._reader.find(raw, text.lower())
            turns += (2 * index + number for number in found.turns)
            steps += [index] if found.anywhere else []
        return turns, steps

    def row(self) -> bytes:
        """The row of a file of rollouts. Raises ValueError if the trajectory is incomplete."""
        return msgspec.json.encode(rollout_row(self._plain_of()))

    @property
    def _turn_count(self) -> int:
        """Two for each step, and those after the last one."""
        return 2 * len(self._steps) + len(self._last_turns())

    def _last_turns(self) -> list[TurnView]:
        """The page after the last action, and the video of the session."""
        trajectory, at = self._attempt.trajectory, self._names.trajectory
        turns: list[TurnView] = []
        number = 2 * len(self._steps)
        if trajectory.final_page is not None:
            path = f"{at}/final_page"
            turns.append(self._reader.final_turn(trajectory.final_page, number, path))
        if VIDEO in trajectory.recordings:
            video, path = trajectory.recordings[VIDEO], f"{at}/recordings"
            turns.append(self._reader.video_turn(video, number + len(turns), path))
        return turns

    @cached_property
    def token_map(self) -> TokenMap:
        found = rollout_tokens(self.raw(self._names.trajectory))
        said = [each.response for each in self._outlines if each.response is not None]
        turns = self._attempt.outcome.turns
        if len(turns) == len(said):
            versions = [
                TurnVersion(turn.version, turn.parts)
                for turn, response in zip(turns, said, strict=True)
                if response.has_tokens
            ]
            found = RolloutTokens(found.turns, versions)
        return TokenMap(found)

    @cached_property
    def _versions(self) -> dict[int, str]:
        """The policy version of each step: that of the outcome, or else of the step itself."""
        steps = [index for index, each in enumerate(self._outlines) if each.response is not None]
        said = [each.response.turn for each in self._outlines if each.response is not None]
        turns = self._attempt.outcome.turns
        chosen = turns if len(turns) == len(said) else said
        named = (version_words(turn.version, turn.parts) for turn in chosen)
        return {index: name for index, name in zip(steps, named, strict=True) if name}

    @cached_property
    def _outlines(self) -> list[_StepOutline]:
        """Empty for a step that cannot be read, which the step itself reports."""
        return [read(raw, _OUTLINE) or _StepOutline() for raw in self._steps]

    def _asked(self) -> TurnView | None:
        path = f"{self._names.trajectory}/task/{_TASK_NAME}"
        row = fields_of(self._attempt.trajectory.task) or {}
        words = text_of(row.get(_TASK_NAME))
        if words is None:
            return None
        return TurnView(0, "user", path, (cut(words, TEXT_LIMIT, path),))

    def _sections(self) -> list[SectionView]:
        trajectory, at = self._attempt.trajectory, self._names.trajectory
        rewards = {
            index: outline.reward
            for index, outline in enumerate(self._outlines)
            if outline.reward is not None
        }
        last = len(self._outlines) - 1
        verdict = rewards.get(last)
        judge = judge_section(
            verdict.evaluation if verdict else ABSENT,
            f"{self._reader.path(last)}/reward/evaluation",
            {
                index: reward.submission_judgment
                for index, reward in rewards.items()
                if reward.submission_judgment
            },
            trajectory.keypoint_step_ids,
        )
        task = task_section(trajectory.task, f"{at}/task")
        sections = (
            judge,
            final_section(trajectory.final_page),
            recordings_section(trajectory.recordings),
            task,
            _models_section(self._attempt.outcome.models),
            run_section(self._attempt, at),
        )
        return [section for section in sections if section is not None]

    def _timeline(self) -> TimelineView | None:
        timings = [outline.timings for outline in self._outlines]
        return build_timeline(timings, self._attempt.outcome.phases, self._attempt.seconds)

    def _usage(self) -> Usage:
        said = self._attempt.outcome.usage
        if said != NO_USAGE:
            return said
        usages = (outline.response.usage for outline in self._outlines if outline.response)
        return sum(usages, NO_USAGE)


def _models_section(uses: tuple[ModelUse, ...]) -> SectionView | None:
    return SectionView(MODELS_TITLE, tuple(model_fields(uses))) if uses else None


def _counts(usage: Usage) -> dict[str, int]:
    counts: dict[str, int] = msgspec.structs.asdict(usage)
    return {name: count for name, count in counts.items() if count}


def _failure_view(failure: FailureRecord | None, path: str) -> FailureView | None:
    if failure is None:
        return None
    kind, trace = failure.kind, failure.traceback
    return FailureView(
        kind=kind,
        detail=cut(failure.detail, FIELD_TEXT_LIMIT, f"{path}/detail"),
        meaning=meaning_of(kind),
        retryable=failure.retryable,
        causes=tuple((cause.type, cause.message) for cause in failure.causes),
        traceback=cut(trace, FIELD_TEXT_LIMIT, f"{path}/traceback") if trace else None,
    )
