"""Pools in tests: a dataset, a worker and a trainer in one process."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from rollgym.engine import Backoff, Fixed, Policy, RetryPolicy, RetryRule, WorkItem
from rollgym.pool import DeliveredGroup, PoolSettings, RolloutPool, serve_rollouts
from rollgym.records import Completed, Outcome, Row, Task

PATIENCE = 60.0
ROWS = 5


def dataset(rows: int = ROWS) -> list[Task]:
    return [Task(index, Row.of({"question": index})) for index in range(rows)]


async def alternate(item: WorkItem, _attempt: int, _deadline: float) -> Outcome:
    """Rewards 0 and 1 in turn, so that no group has equal ones."""
    await asyncio.sleep(0)
    return Completed(float(item.repeat % 2))


def policy(**changes: Any) -> Policy:
    quick = RetryPolicy(default=RetryRule(1, Backoff(initial=0.001, maximum=0.01)), by_kind={})
    usual: dict[str, Any] = {"concurrency": Fixed(4), "retry": quick, "max_same_failures": 0}
    return Policy(**(usual | changes))


def opened(
    directory: Path,
    worker: Callable[..., Any] = alternate,
    *,
    rows: int = ROWS,
    policy_changes: dict[str, Any] | None = None,
    **settings: Any,
) -> AbstractAsyncContextManager[RolloutPool]:
    chosen = PoolSettings(**({"group_size": 2, "max_undelivered": 4} | settings))
    return serve_rollouts(
        directory, dataset(rows), worker, chosen, policy(**(policy_changes or {}))
    )


async def take(pool: RolloutPool, count: int, **options: Any) -> list[DeliveredGroup]:
    """So many groups, waiting for them."""
    taken: list[DeliveredGroup] = []
    async with asyncio.timeout(PATIENCE):
        while len(taken) < count:
            taken += await pool.next_groups(most=count - len(taken), wait=PATIENCE, **options)
    return taken


async def until(holds: Callable[[], bool]) -> None:
    """Wait for a state that no event announces."""
    async with asyncio.timeout(PATIENCE):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.005)
