"""Chance that depends on what it decides and never on when.

Every decision has a name, and its outcome follows from the name and the seed. So a rollout can be
repeated, its turns can come from different processes, and no decision changes another.
"""

from collections.abc import Sequence
from random import Random
from typing import TypeVar

from rollgym.records import derive_seed

T = TypeVar("T")


class Luck:
    """The luck of one rollout."""

    def __init__(self, seed: int, *about: str) -> None:
        self._seed = derive_seed(seed, *about)

    def happens(self, probability: float, *decision: int | str) -> bool:
        return self.random(*decision).random() < probability

    def choose(self, among: Sequence[T], *decision: int | str) -> T:
        return self.random(*decision).choice(among)

    def random(self, *decision: int | str) -> Random:
        """A source of chance for one decision."""
        return Random(derive_seed(self._seed, *decision))  # noqa: S311 - reproducible on purpose

    def identifier(self, *about: int | str) -> str:
        """A name that nothing else of this rollout has."""
        return f"{derive_seed(self._seed, 'identifier', *about):016x}"
