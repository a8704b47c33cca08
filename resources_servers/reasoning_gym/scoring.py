"""Scoring by the datasets of reasoning-gym themselves. Runs in isolated workers only."""

import json
from functools import lru_cache
from typing import Any

import reasoning_gym  # type: ignore[import-untyped]
from sympy.parsing import sympy_parser  # type: ignore[import-untyped]

from resources_servers.reasoning_gym.evaluation import disarm, evaluate, revived

disarm("reasoning_gym")
sympy_parser.eval = evaluate


def score(dataset: str, config: str, entry: str, answer: str) -> float:
    """The score of an answer. `config` and `entry` are JSON; their numbers may have any size."""
    scorer = _scorer(dataset, config)
    return float(scorer.score_answer(answer, revived(dataset, json.loads(entry))))


@lru_cache(maxsize=128)
def _scorer(dataset: str, config: str) -> Any:
    """A dataset of one entry: a scorer needs the configuration, not the generated entries."""
    return reasoning_gym.create_dataset(dataset, **{"seed": 0, "size": 1, **json.loads(config)})
