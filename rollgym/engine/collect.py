"""One collection, from its first task to its coverage.

A single loop decides everything (`collection`). A rollout is counted when its record is on disk and
synced, not before. The sync runs in the same task group as the loop; when it fails, the group
cancels the loop.
"""

import asyncio
import time
from collections.abc import Sequence
from contextlib import ExitStack

from rollgym.engine.collection import Collection, Waits, WallClock
from rollgym.engine.control import Control
from rollgym.engine.coverage import Coverage
from rollgym.engine.observers import Observer, Observers
from rollgym.engine.policy import Policy
from rollgym.engine.recorder import Listener
from rollgym.engine.stop import AttemptTimeouts, Stop, StopLevel, stopping_on_signals
from rollgym.engine.work import LiveSource, Source, Worker, main_error
from rollgym.store import RunStore


async def collect(
    source: Source | LiveSource,
    worker: Worker,
    store: RunStore,
    policy: Policy | None = None,
    observers: Sequence[Observer] = (),
    *,
    stop: Stop | None = None,
    waits: Waits | None = None,
    timeouts: AttemptTimeouts | None = None,
    listener: Listener | None = None,
    control: Control | None = None,
    wall_clock: WallClock = time.time,
) -> Coverage:
    """Run `worker` for every rollout of `source` that `store` has no outcome for.

    `source` gives the tasks of the run, as `store.inputs` does. A `LiveSource` gives tasks while
    the run grows, and only those that are not finished. `listener` gets every record once it is
    synced.

    Returns when every rollout has an outcome, after a request to stop, when the run's budget is
    used up, or when nothing but the same failure comes back (`Policy.max_same_failures`). If the
    caller passes no `stop`, SIGINT and SIGTERM request it. Attempts for which `waits` returns true
    only wait for a resource, such as a browser; they are cancelled at the first request to stop.
    `timeouts` lets others, such as a monitor, end an attempt as at its deadline. `control` changes
    the collection while it runs.

    A store can be collected once; open the run again to continue it.

    Raises StoreError when records can no longer be written, SourceError when the source fails
    (running attempts may finish first, as after a request to stop), StuckWorkersError when too
    many workers do not end, ValueError for a budget that cannot be kept, and whatever a bug in the
    engine raises. Every acknowledged record is on disk then.
    """
    store.claim()
    with ExitStack() as stack:
        if stop is None:
            stop = Stop()
            stack.enter_context(
                stopping_on_signals(stop.request, requests=StopLevel.NOW, hangup=False)
            )
        collection = Collection(
            source=source,
            worker=worker,
            store=store,
            policy=policy or Policy(),
            observers=Observers(observers),
            stop=stop,
            waits=waits or (lambda _: False),
            listener=listener,
            control=control or Control(wall_clock=wall_clock),
            wall_clock=wall_clock,
        )
        if timeouts is not None:
            timeouts.listen(collection.request_timeout)
        try:
            async with asyncio.TaskGroup() as services:
                syncing = [
                    services.create_task(store.commit.run()),
                    services.create_task(store.control_log.run()),
                ]
                await collection.run()
                for service in syncing:
                    service.cancel()
        except BaseExceptionGroup as group:
            error = main_error(group)
            error.add_note(f"Rollouts when it stopped: {collection.coverage()}")
            raise error from error.__cause__
        finally:
            await collection.close()
        return collection.coverage()
