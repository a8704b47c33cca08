"""A counter for each session: the smallest environment with state."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from rollgym.servers import ResourcesServer, Response, TaskRow, Verdict, tool

LARGEST_STEP = 1_000_000


class CounterTask(TaskRow):
    """The first value of the counter, and the value that it must have at the end."""

    initial_count: int
    expected_count: int


@dataclass(slots=True)
class Counter:
    """The state of a session."""

    count: int


class CounterServer(ResourcesServer[CounterTask, Counter]):
    """Scores the last value of the counter, not the answer of the model."""

    async def seed_session(self, task: CounterTask) -> Counter:
        return Counter(task.initial_count)

    @tool
    async def increment_counter(
        self, state: Counter, count: Annotated[int, Field(ge=1, le=LARGEST_STEP)]
    ) -> str:
        """Add to the counter.

        Args:
            count: How much to add.
        """
        state.count += count
        return f"Added {count}."

    @tool
    async def get_counter_value(self, state: Counter) -> int:
        """Read the counter."""
        return state.count

    async def verify(self, task: CounterTask, response: Response, state: Counter) -> Verdict:
        success = state.count == task.expected_count
        return Verdict(reward=float(success), success=success, final_count=state.count)
