"""Rows of rollouts: the names of their fields, and how rows are read and changed.

Bytes of a row that are not changed stay the same. The row of a run that verifies stored rollouts
again also says which rollouts these were: the k-th repeat of the task is the k-th of them.
"""

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from rollgym.records import Row, RowError, Task
from rollgym.store import Manifest

PARAMS = "responses_create_params"
SEED = "seed"
"""Among the parameters."""
AGENT = "agent_ref"
TASK_INDEX = "_ng_task_index"
ROLLOUT_INDEX = "_ng_rollout_index"
FAILURE_CLASS = "_ng_failure_class"
FAILURE_TERMINAL = "_ng_failure_terminal"
NO_PERSIST = "_ng_no_persist"
STORED_ROLLOUTS = "_rollgym_stored_rollouts"
"""In the rows of a run that verifies again."""

RESPONSE = "response"
OUTPUT = "output"
REWARD = "reward"
SUCCESS = "success"
METADATA = "metadata"

ADD_SEED = "num_repeats_add_seed"
"""The setting of a run that gives every repeat a sampling seed."""


def first_seed_of(run: Manifest) -> int | None:
    """The sampling seed of the first repeat of every task, where the run adds seeds.

    Each further repeat has one more.
    """
    return run.identity.seed if run.identity.config.get(ADD_SEED) else None


def parse_row(line: bytes) -> Row:
    """Raises RowError."""
    try:
        return Row.parse(line)
    except RecursionError as error:
        raise RowError("it is nested too deeply") from error


def requested_agent(row: Row) -> str | None:
    """The agent that an input row names; None where the command decides. Raises RowError."""
    reference = row.get(AGENT, object)
    name = reference.get("name") if isinstance(reference, dict) else reference
    if name is not None and not isinstance(name, str):
        raise RowError(f"{AGENT}.name must be a text")
    return name or None


def agent_name(row: Row) -> str:
    """The agent of a row that was prepared for a run."""
    return requested_agent(row) or ""


def without_fields(row: Row, names: Collection[str]) -> Row:
    """The row without the fields of these names."""
    if row.fields.keys().isdisjoint(names):
        return row
    return Row.of({name: raw for name, raw in row.fields.items() if name not in names})


def merge_fields(row: Row, overrides: Mapping[str, Any]) -> Row:
    """The row with overrides, which are merged into objects."""
    changes: dict[str, Any] = {}
    for name, value in overrides.items():
        present = row.fields.get(name)
        if isinstance(value, Mapping) and present is not None and bytes(present).startswith(b"{"):
            changes[name] = msgspec.Raw(merge_fields(Row(bytes(present)), value).raw)
        else:
            changes[name] = value
    return row.with_fields(changes)


class StoredRollout(msgspec.Struct, frozen=True, omit_defaults=True):
    """A rollout that is verified again: which repeat of its task it was, and its sampling seed."""

    repeat: int
    seed: int | None = None

    @classmethod
    def of(cls, row: Row) -> "StoredRollout":
        """The rollout of an output row. Raises RowError."""
        seed = Row(bytes(row.fields[PARAMS])).get(SEED, object)
        sampled = seed if isinstance(seed, int) and not isinstance(seed, bool) else None
        return cls(row.get(ROLLOUT_INDEX, int, 0), sampled)


_STORED = msgspec.json.Decoder(list[StoredRollout])


def rollout_row(task: Task, repeat: int) -> tuple[Row, int]:
    """The input row of one rollout, and its number among the repeats of the task."""
    raw = task.row.fields.get(STORED_ROLLOUTS)
    if raw is None:
        return task.row, repeat
    stored = _STORED.decode(raw)[repeat]
    row = without_fields(task.row, (STORED_ROLLOUTS,))
    if stored.seed is not None:
        row = merge_fields(row, {PARAMS: {SEED: stored.seed}})
    return row, stored.repeat
