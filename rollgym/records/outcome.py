"""How a rollout ended: `Completed`, `Failed` or `Omitted`, and nothing else."""

from enum import StrEnum

import msgspec

from rollgym.records.failure import Failure
from rollgym.records.usage import NO_USAGE, ModelUse, Usage
from rollgym.records.version import PolicyTurn

NOTHING = msgspec.Raw(b"")
SUCCESS_REWARD = 1.0


class OmitReason(StrEnum):
    """Why a rollout was deliberately not run or not finished.

    - `STRAGGLER`: enough other rollouts had finished.
    - `SKIPPED`: the worker said so, for this task.
    - `STALE`: it was dropped, because the policy had a newer version.
    - `CUT`: only of an attempt: it was cancelled, and the rollout started again.
    """

    STRAGGLER = "straggler"
    SKIPPED = "skipped"
    STALE = "stale"
    CUT = "cut"


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

    `usage` counts the tokens of the policy, `models` all calls of each model, judges included.
    `phases` holds the seconds spent in each phase, `spans` the times of the first calls in the
    order in which they ended. `turns` are those of the policy, in the order of their answers, with
    the policy version of each; a collection in which no version is known does not keep them.
    `result` is the JSON of the interaction, complete or up to the failure, kept undecoded.
    """

    usage: Usage = NO_USAGE
    models: tuple[ModelUse, ...] = ()
    phases: dict[str, float] = {}
    spans: tuple[Span, ...] = ()
    turns: tuple[PolicyTurn, ...] = ()
    result: msgspec.Raw = NOTHING

    @property
    def tokens(self) -> int:
        """The tokens of all models; without their calls, those of the policy."""
        if not self.models:
            return self.usage.total
        return sum([use.usage.total for use in self.models])

    @property
    def cost(self) -> int:
        """The cost of all models with a price, in picodollars."""
        return sum([use.cost or 0 for use in self.models])


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
