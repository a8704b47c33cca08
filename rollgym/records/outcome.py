"""How a rollout ended: `Completed`, `Failed` or `Omitted`, and nothing else."""

from enum import StrEnum

import msgspec

from rollgym.records.failure import Failure
from rollgym.records.usage import NO_USAGE, Usage

NOTHING = msgspec.Raw(b"")
SUCCESS_REWARD = 1.0


class OmitReason(StrEnum):
    """Why we chose not to run or finish a rollout."""

    STRAGGLER = "straggler"
    SKIPPED = "skipped"


class Span(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """When one call happened: in seconds since its episode began. `label` names a tool."""

    phase: str
    start: float
    seconds: float
    label: str = ""


class _Ended(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="status", kw_only=True):
    """What every end has.

    `usage` counts tokens, `phases` names seconds spent by phase, `spans` says when the first calls
    were, in the order in which they ended, and `result` is the JSON of the whole interaction (of as
    much of it as there was), kept undecoded.
    """

    usage: Usage = NO_USAGE
    phases: dict[str, float] = {}
    spans: tuple[Span, ...] = ()
    result: msgspec.Raw = NOTHING


class Completed(_Ended, frozen=True, tag="completed", kw_only=False):
    """The verifier gave a reward.

    `success` is the verifier's word; where it says nothing, a reward of at least 1 is a success.
    `measures` are further numbers of the rollout (steps, tool calls, response length) that the
    metrics aggregate by name.
    """

    reward: float
    success: bool | None = None
    measures: dict[str, float] = {}

    @property
    def succeeded(self) -> bool:
        return self.reward >= SUCCESS_REWARD if self.success is None else self.success


class Failed(_Ended, frozen=True, tag="failed", kw_only=False):
    """Something broke: there is no reward and no invented response."""

    failure: Failure


class Omitted(_Ended, frozen=True, tag="omitted", kw_only=False):
    """We chose not to run or finish it."""

    reason: OmitReason
    detail: str = ""


Outcome = Completed | Failed | Omitted
