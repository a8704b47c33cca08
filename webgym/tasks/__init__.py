"""Web tasks: the rows of a task file, and their rubrics."""

from webgym.tasks.task import (
    DEFAULT_MAX_STEPS,
    SITES,
    Difficulty,
    Fact,
    FactGroup,
    Rubric,
    Split,
    WebTask,
)

__all__ = [
    "DEFAULT_MAX_STEPS",
    "SITES",
    "Difficulty",
    "Fact",
    "FactGroup",
    "Rubric",
    "Split",
    "WebTask",
]
