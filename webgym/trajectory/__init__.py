"""Trajectories: the steps of an episode, the model's responses, and the verdict."""

from webgym.trajectory.records import (
    BLOCKED,
    INVALID_URL,
    UNPARSED,
    ActionRecord,
    EpisodeVerdict,
    Image,
    Observation,
    ResponseRecord,
    RewardRecord,
    Step,
    Trajectory,
)

__all__ = [
    "BLOCKED",
    "INVALID_URL",
    "UNPARSED",
    "ActionRecord",
    "EpisodeVerdict",
    "Image",
    "Observation",
    "ResponseRecord",
    "RewardRecord",
    "Step",
    "Trajectory",
]
