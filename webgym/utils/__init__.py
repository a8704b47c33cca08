"""Which tasks are rolled out: sampling, and domains that block us."""

from webgym.utils.blocklist import Blocklist, BlocklistError, BlockRule
from webgym.utils.rollout_sampler import (
    Draw,
    RolloutSampler,
    SamplerSettings,
    SamplingError,
    first_tasks,
)

__all__ = [
    "BlockRule",
    "Blocklist",
    "BlocklistError",
    "Draw",
    "RolloutSampler",
    "SamplerSettings",
    "SamplingError",
    "first_tasks",
]
