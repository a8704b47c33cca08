"""The document of a web rollout: the record's bytes, and steps that are decoded on request.

The record is JSON: a line of a journal as it is, or the JSON of a trajectory in a `.pt` file.
Pointers refer to this JSON. A small part of every step is decoded at once, for the timeline and the
verdict; the rest of a step, which is most of it, when the step is requested.

A step is two turns of a chat: the observation, and the model's response.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import msgspec

from rollgym.records import NO_USAGE, Usage
from rollgym.viewer.documents.sections import meaning_of
from rollgym.viewer.documents.texts import cut, names_in, value_at
from rollgym.viewer.summary import RecordSummary
from rollgym.viewer.values import ABSENT, fields_of, text_of
from rollgym.viewer.view import (
    FIELD_TEXT_LIMIT,
    STEPS_LIMIT,
    TEXT_LIMIT,
    TURNS_LIMIT,
    FailureView,
    RolloutDocument,
    RolloutView,
    SectionView,
    StepView,
    TimelineView,
    TurnView,
)
from webgym.trajectory.plain import rollout_row
from webgym.viewing.drawing import build_timeline
from webgym.viewing.records import (
    AttemptAccount,
    FailureRecord,
    RawSteps,
    RecordNames,
    ResponseUsage,
)
from webgym.viewing.sections import judge_section, run_section, task_section
from webgym.viewing.steps import StepReader

_TASK_NAME = "task_name"
PlainOf = Callable[[], dict[str, Any]]


class _OutlineReward(msgspec.Struct, frozen=True):
    evaluation: msgspec.Raw = ABSENT
    submission_judgment: str | None = None


class _StepOutline(msgspec.Struct, frozen=True):
    """The part of every step that is decoded at once, under the same names in both forms."""

    timings: dict[str, float] = {}
    response: ResponseUsage | None = None
    reward: _OutlineReward | None = None


_OUTLINE = msgspec.json.Decoder(_StepOutline)


class TrajectoryDocument(RolloutDocument):
    """The document of a web rollout. Screenshots are separate files, not in the record."""

    def __init__(
        self,
        record: bytes,
        account: AttemptAccount[RawSteps],
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
        self._account = account
        self._names = names
        self._plain_of = plain_of
        self._steps = account.trajectory.steps or ()
        self._reader = StepReader(
            names,
            account.trajectory.interaction_mode,
            account.trajectory.keypoint_step_ids,
            has_images=has_images,
        )

    def view(self) -> RolloutView:
        asked = self._asked()
        return RolloutView(
            summary=self._summary,
            title=self._summary.facts.title or f"task {self._account.trajectory_index}",
            bytes=self.size,
            turns=2 * len(self._steps),
            steps=len(self._steps),
            prompt=() if asked is None else (asked,),
            failure=_failure_view(self._account.failure, self._names.failure),
            timeline=self._timeline(),
            usage=_counts(self._usage()),
            sections=tuple(self._sections()),
        )

    def steps(self, start: int, count: int) -> list[StepView]:
        wanted = self._steps[start : start + min(count, STEPS_LIMIT)]
        return [self._reader.step(raw, index) for index, raw in enumerate(wanted, start)]

    def turns(self, start: int, count: int) -> list[TurnView]:
        stop = min(start + min(count, TURNS_LIMIT), 2 * len(self._steps))
        first, last = start // 2, (stop + 1) // 2
        turns = [
            turn
            for index, raw in enumerate(self._steps[first:last], first)
            for turn in self._reader.turns(raw, index)
        ]
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

    @cached_property
    def _outlines(self) -> list[_StepOutline]:
        return [_outline(raw) for raw in self._steps]

    def _asked(self) -> TurnView | None:
        path = f"{self._names.trajectory}/task/{_TASK_NAME}"
        row = fields_of(self._account.trajectory.task) or {}
        words = text_of(row.get(_TASK_NAME))
        if words is None:
            return None
        return TurnView(0, "user", path, (cut(words, TEXT_LIMIT, path),))

    def _sections(self) -> list[SectionView]:
        trajectory, at = self._account.trajectory, self._names.trajectory
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
        sections = (judge, task, run_section(self._account, at))
        return [section for section in sections if section is not None]

    def _timeline(self) -> TimelineView | None:
        timings = [outline.timings for outline in self._outlines]
        return build_timeline(timings, self._account.phases, self._account.seconds)

    def _usage(self) -> Usage:
        said = self._account.usage
        if said != NO_USAGE:
            return said
        usages = (outline.response.usage for outline in self._outlines if outline.response)
        return sum(usages, NO_USAGE)


def _outline(raw: msgspec.Raw) -> _StepOutline:
    """The outline of a step; empty if it cannot be read, which the step itself reports."""
    try:
        return _OUTLINE.decode(raw)
    except ValueError:
        return _StepOutline()


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
