"""The tasks, with the facts about them that their pages do not have.

Every page works offline. Some tasks need what our actions cannot do: dragging, or reacting in time.

MiniWoB++ gives a *raw reward* from -1 to 1 when an episode ends. A task is solved if it is 1. A few
tasks measure the distance of a click, so that 1 cannot be reached; those are solved from 0.8 on.
"""

import tomllib
from collections.abc import Iterable
from difflib import get_close_matches
from importlib.resources import files
from typing import Literal

import msgspec

from webgym.miniwob.package import MissingTaskError, Package

Obstacle = Literal["drag", "real_time"]
SOLVED = 1.0
NEARLY = 0.8

_EASY, _MEDIUM, _HARD = 2, 4, 7


class _TaskLists(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of catalogue.toml: names of tasks."""

    drag: frozenset[str]
    real_time: frozenset[str]
    by_distance: frozenset[str]
    medium: frozenset[str]
    hard: frozenset[str]


_TASK_LISTS = msgspec.convert(
    tomllib.loads(files("webgym.miniwob").joinpath("catalogue.toml").read_text("utf-8")), _TaskLists
)


class MiniWobTask(msgspec.Struct, frozen=True):
    """One kind of task; a seed makes an episode of it."""

    name: str
    description: str
    difficulty: int = _EASY
    obstacle: Obstacle | None = None
    solved_at: float = SOLVED

    def reward(self, raw_reward: float) -> int:
        """1 if this raw reward means that the task is solved, else 0."""
        return int(raw_reward >= self.solved_at)


class Catalogue:
    """The tasks of a package by their names."""

    def __init__(self, package: Package) -> None:
        descriptions = package.descriptions()
        self.tasks = {name: _task(name, descriptions.get(name, "")) for name in package.names()}

    def find(self, name: str) -> MiniWobTask:
        """Raises MissingTaskError."""
        task = self.tasks.get(name)
        if task is None:
            near = get_close_matches(name, self.tasks, 1)
            hint = f": did you mean {near[0]}?" if near else ""
            raise MissingTaskError(f"there is no task {name[:80]!r}{hint}")
        return task

    def choose(self, names: Iterable[str] | None = None) -> list[MiniWobTask]:
        """The named tasks, or all that our actions can solve. Raises MissingTaskError."""
        if names is not None:
            return [self.find(name) for name in names]
        return [task for task in self.tasks.values() if not task.obstacle]


def _task(name: str, description: str) -> MiniWobTask:
    obstacle: Obstacle | None = None
    if name in _TASK_LISTS.drag:
        obstacle = "drag"
    elif name in _TASK_LISTS.real_time:
        obstacle = "real_time"
    difficulty = _EASY
    if name in _TASK_LISTS.hard:
        difficulty = _HARD
    elif name in _TASK_LISTS.medium:
        difficulty = _MEDIUM
    solved_at = NEARLY if name in _TASK_LISTS.by_distance else SOLVED
    return MiniWobTask(name, description, difficulty, obstacle, solved_at)
