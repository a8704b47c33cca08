"""How a rollout ended: `Completed`, `Failed` or `Omitted`, and nothing else."""

from enum import StrEnum
from typing import Self

import msgspec

from rollgym.records.failure import Failure

NOTHING = msgspec.Raw(b"")
SUCCESS_REWARD = 1.0


class Usage(msgspec.Struct, frozen=True, omit_defaults=True):
    """Token counts. `cached_tokens` is part of the input, `reasoning_tokens` of the output."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0

    def __add__(self, other: Self) -> "Usage":
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
        )


NO_USAGE = Usage()


class OmitReason(StrEnum):
    """Why a rollout was deliberately not run or not finished."""

    STRAGGLER = "straggler"
    SKIPPED = "skipped"


class Span(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The time of one call, in seconds since the attempt started. `label` names a tool."""

    phase: str
    start: float
    seconds: float
    label: str = ""


class _OutcomeBase(
    msgspec.Struct, frozen=True, omit_defaults=True, tag_field="status", kw_only=True
):
    """The fields of every outcome.

    `usage` counts tokens, `phases` holds the seconds spent in each phase, `spans` the times of the
    first calls in the order in which they ended. `result` is the JSON of the interaction, complete
    or up to the failure, kept undecoded.
    """

    usage: Usage = NO_USAGE
    phases: dict[str, float] = {}
    spans: tuple[Span, ...] = ()
    result: msgspec.Raw = NOTHING


class Completed(_OutcomeBase, frozen=True, tag="completed", kw_only=False):
    """The verifier gave a reward.

    `success` is the verifier's verdict; without one, a reward of at least 1 is a success.
    `measures` are further numbers of the rollout (steps, tool calls, response length) that the
    metrics aggregate by name.
    """

    reward: float
    success: bool | None = None
    measures: dict[str, float] = {}

    @property
    def succeeded(self) -> bool:
        return self.reward >= SUCCESS_REWARD if self.success is None else self.success


class Failed(_OutcomeBase, frozen=True, tag="failed", kw_only=False):
    """Something broke: there is no reward."""

    failure: Failure


class Omitted(_OutcomeBase, frozen=True, tag="omitted", kw_only=False):
    """The rollout was deliberately not run or not finished."""

    reason: OmitReason
    detail: str = ""


Outcome = Completed | Failed | Omitted
