"""The tasks on the test sites, how attempts are scored, and a recorded solution for each task."""

from webgym.sites.tasks.solutions import ActionKind, RecordedAction, Solution, load_solutions
from webgym.sites.tasks.task import (
    SPLITS,
    RubricGroup,
    SiteTask,
    SiteVerdict,
    Split,
    load_tasks,
    start_url,
    verify,
)

__all__ = [
    "SPLITS",
    "ActionKind",
    "RecordedAction",
    "RubricGroup",
    "SiteTask",
    "SiteVerdict",
    "Solution",
    "Split",
    "load_solutions",
    "load_tasks",
    "start_url",
    "verify",
]
