"""What an episode leaves: its steps, what the model said at each, and what it was worth."""

from webgym.trajectory.records import (
    BLOCKED,
    INVALID_URL,
    UNPARSED,
    ActionRecord,
    Image,
    Observation,
    ResponseRecord,
    RewardRecord,
    Step,
    Trajectory,
    Verdict,
)

__all__ = [
    "BLOCKED",
    "INVALID_URL",
    "UNPARSED",
    "ActionRecord",
    "Image",
    "Observation",
    "ResponseRecord",
    "RewardRecord",
    "Step",
    "Trajectory",
    "Verdict",
]
