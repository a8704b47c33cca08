"""Opening a pool: its run is drawn again up to where it was, and continued."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from rollgym.engine import Observer, Policy, Worker
from rollgym.pool.pool import RolloutPool
from rollgym.pool.settings import PoolSettings
from rollgym.pool.source import GroupDraw
from rollgym.records import Attempt, Row, Task
from rollgym.rollouts.output_row import output_row
from rollgym.store import OpenAdvice, RunStore, open_run, read_manifest
from rollgym.store.manifest import DEFAULT_ADVICE
from rollgym.store.run import Replay

SHARING = "One process serves a pool, and any number of trainers can take groups from it."


def open_pool_run(
    directory: Path,
    dataset: Sequence[Task],
    settings: PoolSettings,
    *,
    config: Mapping[str, Any] | None = None,
    seed: int = 0,
    force_new_run: bool = False,
    replay: Replay | None = None,
    advice: OpenAdvice = DEFAULT_ADVICE,
    **options: Any,
) -> RunStore:
    """Make or continue the run of a pool: as `open_run`, whose further `options` it takes.

    Raises RefusedError, StorageError.
    """
    manifest = None if force_new_run else read_manifest(directory, advice)
    drawn = manifest.identity.inputs.tasks if manifest else 0
    draw = GroupDraw.of(dataset, settings, seed)
    return open_run(
        directory,
        (draw.task(number) for number in range(drawn)),
        config={
            **(config or {}),
            "pool": {"group_size": settings.group_size, "order": str(settings.order)},
        },
        seed=seed,
        force_new_run=force_new_run,
        replay=replay,
        advice=msgspec.structs.replace(advice, sharing=SHARING),
        **options,
    )


@asynccontextmanager
async def serve_rollouts(
    directory: Path | str,
    dataset: Sequence[Task],
    worker: Worker,
    settings: PoolSettings | None = None,
    policy: Policy | None = None,
    *,
    seed: int = 0,
    config: Mapping[str, Any] | None = None,
    observers: Sequence[Observer] = (),
) -> AsyncIterator[RolloutPool]:
    """Collect groups of rollouts of `dataset` in the background of the block.

    Yields the pool, which gives the groups and takes their acknowledgements. The same call
    continues the run in `directory`. At the end of the block, running rollouts may finish within
    the policy's `drain_timeout`.

    Raises RefusedError and StorageError where the run cannot be opened, and ValueError for a
    dataset without rows.
    """
    chosen = settings or PoolSettings()
    with open_pool_run(Path(directory), dataset, chosen, config=config, seed=seed) as store:
        pool = RolloutPool(
            store, dataset, worker, chosen, policy=policy, observers=observers, row_of=any_row
        )
        async with pool:
            yield pool


def any_row(task: Task, attempt: Attempt) -> Row:
    """The output row of a rollout with any JSON, which is in `result` where it is not an object."""
    outcome = attempt.outcome
    result = bytes(outcome.result).strip() or b"{}"
    if not result.startswith(b"{"):
        result = msgspec.json.encode({"result": msgspec.Raw(result)})
    usable = msgspec.structs.replace(outcome, result=msgspec.Raw(result))
    return output_row(task, msgspec.structs.replace(attempt, outcome=usable))
