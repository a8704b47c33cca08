"""What the viewer reads of a trajectory, in the two forms of trajectories.

*Two forms.* A line of a journal is an attempt whose result is a trajectory with the names of
`webgym.trajectory.records`. In a `.pt` file, a trajectory has the names of
`webgym.trajectory.plain` and includes its outcome. Both become an `AttemptRecord`; their steps have
the same attributes.

*Decoding only what is needed.* `AttemptRecord` is generic in its steps: for the index step
summaries are enough, which skip pages, prompts and token ids; a document keeps each step as bytes
and decodes the steps that are requested.

*No placeholders.* Unlike where trajectories are written, a size that was not stored is None.
"""

from typing import Generic, TypeVar

import msgspec

from rollgym.records import NO_USAGE, NOTHING, ModelUse, Usage
from rollgym.records.outcome import SUCCESS_REWARD
from rollgym.records.version import PolicyTurn, VersionPart
from webgym.browser.contract.answers import Incident
from webgym.trajectory.records import ActionRecord, Image, RewardRecord, StoredFile

Steps = TypeVar("Steps")

COMPLETED, FAILED, OMITTED = "completed", "failed", "omitted"


class CauseRecord(msgspec.Struct, frozen=True):
    type: str = ""
    message: str = ""


class FailureRecord(msgspec.Struct, frozen=True):
    """Like `rollgym.records.Failure`, but its kind may be one of a later version."""

    kind: str = ""
    detail: str = ""
    retryable: bool | None = None
    causes: tuple[CauseRecord, ...] = ()
    traceback: str | None = None


class TrajectoryRecord(msgspec.Struct, Generic[Steps], frozen=True, kw_only=True):
    """A trajectory, with the same names in both forms. `task` is the unchanged input row."""

    steps: Steps | None = None
    task_id: str = ""
    task: msgspec.Raw = NOTHING
    split: str = "train"
    interaction_mode: str = "coordinates"
    max_steps: int = 0
    model: str = ""
    session: str = ""
    start_url: str = ""
    ending: str = ""
    keypoint_step_ids: tuple[int, ...] = ()
    final_page: "FinalPage | None" = None
    recordings: dict[str, str] = {}


class AttemptRecord(msgspec.Struct, Generic[Steps], frozen=True, kw_only=True):
    """An attempt: a line of a journal. A `.pt` file does not have its times."""

    task: int
    repeat: int
    attempt: int
    final: bool
    started: float | None
    seconds: float | None
    outcome: "OutcomeRecord[Steps]"

    @property
    def trajectory(self) -> TrajectoryRecord[Steps]:
        return self.outcome.result or TrajectoryRecord()


class OutcomeRecord(msgspec.Struct, Generic[Steps], frozen=True, kw_only=True):
    """An outcome of any status; `result` is None where there is no trajectory.

    `phases` are the seconds of the whole attempt, `turns` those of the policy, if known.
    """

    status: str
    reward: float | None = None
    success: bool | None = None
    failure: FailureRecord | None = None
    reason: str = ""
    detail: str = ""
    usage: Usage = NO_USAGE
    models: tuple[ModelUse, ...] = ()
    phases: dict[str, float] = {}
    turns: tuple[PolicyTurn, ...] = ()
    result: TrajectoryRecord[Steps] | None = None

    @property
    def succeeded(self) -> bool | None:
        """None where there is no reward."""
        if self.reward is None:
            return None
        return self.reward >= SUCCESS_REWARD if self.success is None else self.success

    @property
    def why(self) -> str:
        """Why the rollout was omitted; empty for another outcome."""
        return ": ".join(filter(None, (self.reason, self.detail)))


class PlainRecord(TrajectoryRecord[Steps], Generic[Steps], frozen=True, kw_only=True):
    """A trajectory of a `.pt` file."""

    trajectory_index: int
    repeat: int = 0
    attempt: int = 1
    outcome: str
    reward: float | None = None
    failure: FailureRecord | None = None

    def as_attempt(self, usage: Usage) -> AttemptRecord[Steps]:
        """The same attempt in the form of a journal; its tokens are counted by the caller."""
        return AttemptRecord(
            task=self.trajectory_index,
            repeat=self.repeat,
            attempt=self.attempt,
            final=True,
            started=None,
            seconds=None,
            outcome=OutcomeRecord(
                status=self.outcome,
                reward=self.reward,
                failure=self.failure,
                usage=usage,
                result=self,
            ),
        )


class ActionSummary(msgspec.Struct, frozen=True):
    key: str = ""
    arguments: msgspec.Raw = NOTHING


class ResponseUsage(msgspec.Struct, frozen=True):
    usage: Usage = NO_USAGE
    version: str = ""
    version_parts: tuple[VersionPart, ...] = ()

    @property
    def turn(self) -> PolicyTurn:
        """Its policy version, as an outcome has it."""
        return PolicyTurn(version=self.version, parts=self.version_parts)


class RewardSummary(msgspec.Struct, frozen=True):
    is_blocked: bool = False


class StepSummary(msgspec.Struct, frozen=True):
    """What the index needs of a step, with the same names in both forms."""

    action: ActionSummary | None = None
    response: ResponseUsage | None = None
    reward: RewardSummary | None = None


StepSummaries = tuple[StepSummary, ...]
RawSteps = tuple[msgspec.Raw, ...]


class PageRecord(msgspec.Struct, frozen=True):
    url: str = ""
    title: str = ""
    width: int | None = None
    height: int | None = None


class ViewedObservation(msgspec.Struct, frozen=True, kw_only=True):
    """The observation before a step."""

    screenshot: Image | None = None
    page: PageRecord = PageRecord()
    tree: str | None = None
    incidents: tuple[Incident, ...] = ()
    downloads: tuple[StoredFile, ...] = ()
    settled: bool = True


class FinalPage(msgspec.Struct, frozen=True, kw_only=True):
    """The page after the last action, under the names of both forms."""

    screenshot: Image | None = None
    image: Image | None = None
    page: PageRecord | None = None
    page_metadata: PageRecord | None = None

    @property
    def seen(self) -> PageRecord:
        return self.page or self.page_metadata or PageRecord()

    @property
    def picture(self) -> Image | None:
        return self.screenshot or self.image


class ViewedResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The prompt and the response of the model, without token ids."""

    raw_prompt: tuple[msgspec.Raw, ...] = ()
    raw_response: str = ""
    fields: dict[str, msgspec.Raw] = {}
    tolerances: tuple[str, ...] = ()
    parse_failure: str | None = None
    finish_reason: str | None = None
    usage: Usage = NO_USAGE


class StepRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A step of a journal."""

    observation: ViewedObservation = ViewedObservation()
    action: ActionRecord | None = None
    response: ViewedResponse | None = None
    reward: RewardRecord | None = None
    same_as_next_screenshot: bool | None = None
    timings: dict[str, float] = {}


class _PlainObservation(ViewedObservation, frozen=True, kw_only=True):
    screenshot: Image | None = msgspec.field(default=None, name="image")
    page: PageRecord = msgspec.field(default=PageRecord(), name="page_metadata")
    tree: str | None = msgspec.field(default=None, name="ac_tree")


class _PlainAction(ActionRecord, frozen=True, kw_only=True):
    text: str = msgspec.field(default="", name="action_string")


class _PlainResponse(ViewedResponse, frozen=True, kw_only=True):
    fields: dict[str, msgspec.Raw] = msgspec.field(default_factory=dict, name="answering_tokens")


class PlainStepRecord(StepRecord, frozen=True, kw_only=True):
    """A step of a `.pt` file."""

    observation: _PlainObservation = _PlainObservation()
    action: _PlainAction | None = None
    response: _PlainResponse | None = None


class RecordNames(msgspec.Struct, frozen=True):
    """Where a form has what is shown: JSON pointers, and names within a step."""

    trajectory: str
    failure: str
    step: type[StepRecord]
    tree: str
    fields: str


JOURNAL_NAMES = RecordNames("/outcome/result", "/outcome/failure", StepRecord, "tree", "fields")
PLAIN_NAMES = RecordNames("", "/failure", PlainStepRecord, "ac_tree", "answering_tokens")
