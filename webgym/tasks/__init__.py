"""Web tasks: what a row of a task file says, and its rubric."""

from webgym.tasks.rubric import Fact, FactGroup, Rubric
from webgym.tasks.task import DEFAULT_MAX_STEPS, Difficulty, Split, WebTask

__all__ = [
    "DEFAULT_MAX_STEPS",
    "Difficulty",
    "Fact",
    "FactGroup",
    "Rubric",
    "Split",
    "WebTask",
]
