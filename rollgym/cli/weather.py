"""The demo's infrastructure faults, planned by seed.

What strikes a rollout depends on the rollout and the attempt alone, not on when it runs. A passing
fault lasts one or two attempts, so the engine's retries outlast it; a lasting one ends the rollout.
"""

from random import Random

import msgspec

from rollgym.engine import WorkItem
from rollgym.records import (
    ModelContextError,
    ModelRateLimitError,
    RolloutError,
    ToolError,
    VerifierError,
    derive_seed,
)

LONGEST_FAULT = 2


class Weather(msgspec.Struct, frozen=True):
    """`faults` is the share of rollouts that meet a passing fault, `failures` a lasting one."""

    faults: float
    failures: float

    def strike(self, boundary: str, item: WorkItem, attempt: int) -> None:
        """Raise what is planned for this crossing of a boundary: model, tool or verifier."""
        random = Random(derive_seed(item.seed, "weather"))  # noqa: S311 - reproducible on purpose
        lasting, passing = random.random() < self.failures, random.random() < self.faults
        struck = random.choice(("model", "tool", "verifier"))
        attempts = random.randint(1, LONGEST_FAULT)
        if lasting and boundary == "model":
            raise ModelContextError("simulated: the conversation does not fit the model's context")
        if passing and struck == boundary and attempt <= attempts:
            raise _fault(boundary)


def _fault(boundary: str) -> RolloutError:
    match boundary:
        case "model":
            return ModelRateLimitError("simulated: HTTP 429 Too Many Requests", retry_after=0.2)
        case "tool":
            return ToolError("simulated: the calculator's server closed the connection")
        case _:
            return VerifierError("simulated: the verifier answered HTTP 503")
