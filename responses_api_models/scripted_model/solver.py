"""What a solver is, and how it makes random choices that can be repeated.

Each choice has a name, and its result follows from the name and the seed, never from the order of
choices. So a rollout can be repeated, its turns can come from different processes, and no choice
changes another.
"""

from collections.abc import Mapping, Sequence
from random import Random
from typing import ClassVar, NamedTuple, Protocol, TypeVar

from responses_api_models.scripted_model.request import ScriptedRequest
from rollgym.records import derive_seed

T = TypeVar("T")


class SeededChoices:
    """The random choices of one rollout."""

    def __init__(self, seed: int, *about: str) -> None:
        self._seed = derive_seed(seed, *about)

    def happens(self, probability: float, *decision: int | str) -> bool:
        return self.random(*decision).random() < probability

    def choose(self, among: Sequence[T], *decision: int | str) -> T:
        return self.random(*decision).choice(among)

    def random(self, *decision: int | str) -> Random:
        """A random number generator for one decision."""
        return Random(derive_seed(self._seed, *decision))  # noqa: S311 - reproducible on purpose

    def identifier(self, *about: int | str) -> str:
        """An identifier that is unique in this rollout."""
        return f"{derive_seed(self._seed, 'identifier', *about):016x}"


class PlannedCall(NamedTuple):
    """A tool call to make."""

    name: str
    arguments: Mapping[str, object]


class Turn(NamedTuple):
    """One turn of the model: a text or calls. `thought` is reasoning that it may show."""

    thought: str
    text: str = ""
    calls: tuple[PlannedCall, ...] = ()


class Solver(Protocol):
    """Solves one kind of task. `mistakes` names its mistakes, at least one; each costs reward."""

    mistakes: ClassVar[tuple[str, ...]]

    def recognizes(self, request: ScriptedRequest) -> bool:
        """Whether this solver can solve the task."""

    def next_turn(
        self, request: ScriptedRequest, mistake: str | None, choices: SeededChoices
    ) -> Turn:
        """The next turn of a rollout, in which the solver makes this mistake, or none."""
