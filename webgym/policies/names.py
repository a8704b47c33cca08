"""What the baselines are called, and where they are found unless somebody says otherwise."""

from typing import Literal

PolicyName = Literal["heuristic", "scripted"]
MODEL_NAMES: dict[PolicyName, str] = {
    "heuristic": "heuristic-baseline",
    "scripted": "scripted-baseline",
}
"""The names of the models say what they are, so that no result can be taken for a model's."""

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 7320
DEFAULT_SEED = 0
