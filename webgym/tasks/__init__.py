"""Web tasks: what a row of a task file says, and its rubric."""

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
