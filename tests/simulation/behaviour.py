"""What a simulated worker does at one attempt: when it acts, how, and how it takes a cancellation.

The three are drawn independently, so that every way of ending meets every way of being stopped.
"""

from enum import StrEnum
from random import Random

import msgspec

from rollgym.records import (
    AgentError,
    BrowserError,
    BrowserUnavailableError,
    DeadlineError,
    EnvironmentSessionError,
    ModelAuthError,
    ModelContextError,
    ModelMalformedError,
    ModelRateLimitError,
    ModelRequestError,
    ModelUnavailableError,
    RolloutError,
    TaskError,
    ToolError,
    VerifierError,
)

ERRORS: tuple[type[RolloutError], ...] = (
    ModelRateLimitError,
    ModelUnavailableError,
    ModelMalformedError,
    ModelRequestError,
    ModelContextError,
    ModelAuthError,
    ToolError,
    EnvironmentSessionError,
    VerifierError,
    BrowserError,
    BrowserUnavailableError,
    AgentError,
    TaskError,
    DeadlineError,
)


class Act(StrEnum):
    """How an attempt ends that is left alone."""

    COMPLETES = "completes"
    RAISES_TYPED = "raises a typed error"
    RAISES_UNTYPED = "raises an untyped error"
    RETURNS_FAILED = "returns a failure"
    RETURNS_SKIPPED = "returns an omission"
    RETURNS_GARBAGE = "returns no outcome"
    REWARDS_WRONGLY = "returns an unusable reward"
    RETURNS_UNENCODABLE = "returns what cannot be written"
    FAILS_WRONGLY = "fails with a malformed failure"
    CANCELS_ITSELF = "cancels itself"
    EXITS = "exits the interpreter"


class Reaction(StrEnum):
    """What a cancelled attempt does, after it has lingered."""

    ENDS = "ends"
    COMPLETES = "completes all the same"
    FAILS = "fails in its cleanup"
    GOES_ON = "ignores it"


class Behaviour(msgspec.Struct, frozen=True):
    """One attempt.

    It acts `after` so many seconds, or hangs where that is None. Once cancelled it lingers, deaf to
    further cancellations, and then reacts; `linger` None is for ever. `variant` chooses among the
    forms an act has.
    """

    act: Act
    after: float | None
    reaction: Reaction
    linger: float | None
    variant: int
    reward: float
    error: int
    retry_after: float | None


_ACTS = (
    *(Act.COMPLETES,) * 12,
    *(Act.RAISES_TYPED,) * 8,
    *(act for act in Act if act not in (Act.COMPLETES, Act.RAISES_TYPED)),
)
_REACTIONS = (*(Reaction.ENDS,) * 4, *Reaction)


def draw_behaviour(random: Random) -> Behaviour:
    """Mostly a worker that completes or fails soon; sometimes anything."""
    return Behaviour(
        act=random.choice(_ACTS),
        after=random.choice((0.0, 0.001, 0.5, random.uniform(0.0, 3.0), 2.0, 6.0, None)),
        reaction=random.choice(_REACTIONS),
        linger=random.choice((0.0, 0.0, 0.0, 0.2, 1.0, 5.0, None)),
        variant=random.randrange(12),
        reward=random.choice((0.0, 0.5, 1.0, -1.0, random.uniform(-2.0, 2.0))),
        error=random.randrange(len(ERRORS)),
        retry_after=random.choice((None, None, None, 0.0, 0.3, 2.0, 100.0)),
    )
