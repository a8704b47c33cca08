"""Several stored rollouts of one task, bundled into the row of a task that verifies them again.

The k-th repeat of such a task is the k-th of its stored rollouts. Files show a rollout as what it
is: with the row and the number that it has always had.
"""

from collections.abc import Sequence

import msgspec

from rollgym.records import Row, Task
from rollgym.rollouts.fields import PARAMS, RESPONSE, ROLLOUT_INDEX, SEED, STORED_ROLLOUTS
from rollgym.rollouts.row_edits import merged, without


class StoredRollout(msgspec.Struct, frozen=True):
    """What is kept of a rollout: which repeat it was, what the agent answered, and its seed."""

    repeat: int
    response: msgspec.Raw
    seed: int | None = None

    @classmethod
    def of(cls, row: Row) -> "StoredRollout":
        """What a rollout's row says. Raises RowError."""
        seed = Row(bytes(row.fields[PARAMS])).get(SEED, object)
        sampled = seed if isinstance(seed, int) and not isinstance(seed, bool) else None
        return cls(row.get(ROLLOUT_INDEX, int, 0), row.fields[RESPONSE], sampled)


_STORED = msgspec.json.Decoder(list[StoredRollout])


def bundled(row: Row, stored: Sequence[StoredRollout]) -> Row:
    """The row of the task to verify them again."""
    return row.with_fields({STORED_ROLLOUTS: stored})


def stored_rollout(task: Task, repeat: int) -> tuple[Row, StoredRollout]:
    """The input row of a bundle's task, and the rollout that is its repeat."""
    stored = _STORED.decode(task.row.fields[STORED_ROLLOUTS])[repeat]
    row = without(task.row, (STORED_ROLLOUTS,))
    if stored.seed is not None:
        row = merged(row, {PARAMS: {SEED: stored.seed}})
    return row, stored


def shown(task: Task, repeat: int) -> tuple[Row, int]:
    """The input row of a rollout, and its number among the repeats, as files show them."""
    if STORED_ROLLOUTS not in task.row.fields:
        return task.row, repeat
    row, stored = stored_rollout(task, repeat)
    return row, stored.repeat
