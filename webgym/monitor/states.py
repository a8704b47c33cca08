"""The states of a rollout on the monitor, and the character that stands for each.

The characters differ, so that a board without colours can be read too. They are also those of
`MonitorSnapshot.cells`.
"""

from enum import StrEnum

PHASES = ("navigate", "metadata", "screenshot", "tree", "model", "execute", "reward")
"""What a running rollout can be at, in the order of a step."""
BROWSER, RETRY = "browser", "retry"
"""What a waiting rollout waits for."""


class TaskState(StrEnum):
    """Where a rollout is.

    `WAITING` is for a browser or, between two attempts, for the next one. `SUCCESS`, `FAILURE` and
    `BLOCKED` are ends with a reward; `FAILED` has none. `EARLIER` are rollouts that ended before
    this collection, where nobody said how.
    """

    NOT_STARTED = "not_started"
    WAITING = "waiting"
    RUNNING = "running"
    SUCCESS = "success"
    FAILURE = "failure"
    BLOCKED = "blocked"
    FAILED = "failed"
    OMITTED = "omitted"
    EARLIER = "earlier"

    @property
    def mark(self) -> str:
        """Its character."""
        return _MARKS[self]

    @property
    def words(self) -> str:
        return self.value.replace("_", " ")

    @property
    def is_end(self) -> bool:
        return self not in _OPEN


_OPEN = frozenset((TaskState.NOT_STARTED, TaskState.WAITING, TaskState.RUNNING))
_MARKS = {
    TaskState.NOT_STARTED: ".",
    TaskState.WAITING: "w",
    TaskState.RUNNING: ">",
    TaskState.SUCCESS: "+",
    TaskState.FAILURE: "x",
    TaskState.BLOCKED: "#",
    TaskState.FAILED: "!",
    TaskState.OMITTED: "-",
    TaskState.EARLIER: "=",
}
OVERDUE_MARK = "?"
"""A rollout that waits or runs, and of which nothing was heard for longer than there should be."""
MARKS = OVERDUE_MARK + "!>wx#+-=."
"""All characters; of states that are equally frequent the one that comes first here is shown."""
