"""A task, the key of one rollout of it, and the random seeds of its rollouts.

Every random decision takes its seed from what it is about, never from when it happens, so a
resumed, sharded or reordered run decides as the uninterrupted one would have.
"""

from hashlib import blake2b
from typing import Annotated

import msgspec

from rollgym.records.row import Row

Natural = Annotated[int, msgspec.Meta(ge=0)]


class RolloutKey(msgspec.Struct, frozen=True, order=True):
    """Identifies one rollout of a run: a task and a repeat, counted from 0."""

    task: int
    repeat: int

    def __str__(self) -> str:
        return f"task {self.task} repeat {self.repeat}"


class Task(msgspec.Struct, frozen=True):
    """One row of the materialised inputs.

    `index` identifies the task within its run; it is never negative, and indexes may have gaps.
    `row` is the user's row, byte for byte. `repeats` is the number of its rollouts.
    """

    index: int
    row: Row
    repeats: int = 1

    def __post_init__(self) -> None:
        if self.index < 0 or self.repeats < 1:
            raise ValueError(
                f"task index {self.index} with {self.repeats} repeats: "
                "the index must be at least 0 and the repeats at least 1"
            )


def derive_seed(run_seed: int, *about: int | str) -> int:
    """A seed of 63 bits for one purpose, e.g. `derive_seed(seed, "retry", task, repeat, 2)`."""
    name = "\0".join(map(str, (run_seed, *about)))
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "big") >> 1
