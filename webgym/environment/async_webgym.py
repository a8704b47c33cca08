"""`AsyncWebGym`: the environment that collects the trajectories of an iteration."""

from webgym.rollout.gym import AsyncWebGym

__all__ = ["AsyncWebGym"]
