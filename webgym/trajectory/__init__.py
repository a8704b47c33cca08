"""What an episode leaves: its steps, what the model said at each, and what it was worth."""

from webgym.trajectory.step import (
    BLOCKED,
    INVALID_URL,
    UNPARSED,
    ActionRecord,
    Image,
    Observation,
    ResponseRecord,
    RewardRecord,
    Step,
)
from webgym.trajectory.trajectory import Trajectory, Verdict

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
