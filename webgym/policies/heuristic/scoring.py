"""How well a text fits a wish: the share of the wish's words it has, rare words weighing more."""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from webgym.policies.heuristic.words import kin, stems

KIN_SHARE = 0.8
"""What a word is worth that only means the same."""


class Weights:
    """How much each word says: the fewer texts have it, the more."""

    def __init__(self, texts: Iterable[Collection[str]]) -> None:
        self._seen: Counter[str] = Counter()
        self._texts = 0
        for text in texts:
            self._texts += 1
            self._seen.update(set(text))

    def of(self, word: str) -> float:
        return 1.0 + math.log((1 + self._texts) / (1 + self._seen[word]))


def coverage(
    wanted: Collection[str], have: Mapping[str, float], weights: Weights | None = None
) -> float:
    """The share of the wanted words that are there, from 0 to 1.

    `have` says how much it counts to find a word: less, where it only stands nearby.
    """
    total = found = 0.0
    for word in set(wanted):
        weight = weights.of(word) if weights else 1.0
        total += weight
        found += weight * max(
            (have.get(each, 0.0) * (1.0 if each == word else KIN_SHARE) for each in kin(word)),
            default=0.0,
        )
    return found / total if total else 0.0


def fit(name: str, wish: Collection[str], weights: Weights | None = None) -> float:
    """How much of a short name the wish asks for, from 0 to 1."""
    return coverage(stems(name), dict.fromkeys(wish, 1.0), weights)
