"""Rollout collection for language-model agents.

The packages, from the ground up: `records` (what a rollout is), `store` (how it lasts), `engine`
(how it happens), `metrics` (what it amounts to), `monitor` (what you see meanwhile), `cli`.
"""

__version__ = "0.1.0"
