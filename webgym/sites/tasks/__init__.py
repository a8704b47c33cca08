"""The tasks on the test sites, how each ends well, and a recorded solution for each."""

from webgym.sites.tasks.checks import Check
from webgym.sites.tasks.solutions import Action, ActionKind, Solution, load_solutions
from webgym.sites.tasks.task import SPLITS, FactGroup, Split, Task, load_tasks, start_url

__all__ = [
    "SPLITS",
    "Action",
    "ActionKind",
    "Check",
    "FactGroup",
    "Solution",
    "Split",
    "Task",
    "load_solutions",
    "load_tasks",
    "start_url",
]
