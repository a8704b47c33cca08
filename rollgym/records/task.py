"""What is to be done: a task, and the key of one rollout of it."""

from typing import Annotated

import msgspec

from rollgym.records.row import Row

Natural = Annotated[int, msgspec.Meta(ge=0)]


class RolloutKey(msgspec.Struct, frozen=True, order=True):
    """Names one rollout of a run: the `repeat`-th time its task is worked on."""

    task: int
    repeat: int

    def __str__(self) -> str:
        return f"task {self.task} repeat {self.repeat}"


class Task(msgspec.Struct, frozen=True):
    """One row of the materialised inputs.

    `index` identifies the task within its run; it is never negative, and the inputs need not be
    dense in it. `row` is the user's row, byte for byte. `repeats` is the size of its group.
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
