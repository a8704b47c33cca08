"""Whole collections in tests: a run directory, a worker, what it came to."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any

from rollgym.engine import (
    Backoff,
    Control,
    Coverage,
    Fixed,
    Listener,
    Observer,
    Policy,
    RetryPolicy,
    RetryRule,
    Stop,
    WorkItem,
    collect,
    run,
)
from rollgym.records import Completed, Outcome, RolloutKey, Task
from rollgym.store import Disk, Status, SyncPolicy, open_run
from tests.builders import read_json_lines, tasks

Work = Callable[[WorkItem, int, float], Coroutine[Any, Any, Outcome]]

QUICK_RETRIES = RetryPolicy(default=RetryRule(3, Backoff(initial=0.001, maximum=0.01)), by_kind={})
QUICK_SYNC = SyncPolicy(max_delay=0.005)


def policy(**changes: Any) -> Policy:
    usual: dict[str, Any] = {
        "concurrency": Fixed(4),
        "retry": QUICK_RETRIES,
        "attempt_timeout": 10.0,
        "cancel_grace": 0.05,
        "drain_timeout": 5.0,
    }
    return Policy(**(usual | changes))


class Listed:
    """A source over a list, which notes how far it has been read."""

    def __init__(self, listed: Sequence[Task]) -> None:
        self.pulled = 0
        self.groups = len(listed)
        self.expected = sum(task.repeats for task in listed)
        self._listed = listed

    def __iter__(self) -> Iterator[Task]:
        for task in self._listed:
            self.pulled += 1
            yield task


class Collector:
    """Runs collections in one directory, as a person would run one command again and again."""

    def __init__(self, directory: Path, count: int = 4, repeats: int = 1) -> None:
        self.directory = directory
        self.count = count
        self.repeats = repeats

    def __call__(self, worker: Work, **options: Any) -> Coverage:
        return run(self.collect(worker, **options))

    async def collect(
        self,
        worker: Work,
        *,
        observers: Sequence[Observer] = (),
        stop: Stop | None = None,
        waits: Callable[[RolloutKey], bool] | None = None,
        disk: Disk | None = None,
        sync: SyncPolicy = QUICK_SYNC,
        reopen: Sequence[Status] = (),
        control: Control | None = None,
        listener: Listener | None = None,
        **policy_changes: Any,
    ) -> Coverage:
        with open_run(
            self.directory,
            tasks(self.count, self.repeats),
            disk=disk,
            sync=sync,
            reopen=reopen,
        ) as store:
            return await collect(
                store.inputs,
                worker,
                store,
                policy(**policy_changes),
                observers,
                stop=stop,
                waits=waits,
                control=control,
                listener=listener,
            )

    @property
    def lines(self) -> list[dict[str, Any]]:
        return read_json_lines(self.directory / "journal.jsonl")

    @property
    def finals(self) -> dict[tuple[int, int], dict[str, Any]]:
        """The outcome of each rollout. Fails where one has two."""
        finals: dict[tuple[int, int], dict[str, Any]] = {}
        for line in self.lines:
            if line["final"]:
                key = (line["task"], line["repeat"])
                assert key not in finals
                finals[key] = line["outcome"]
        return finals


async def complete(_item: WorkItem, _attempt: int, _deadline: float) -> Outcome:
    return Completed(1.0)


async def hang(_item: WorkItem, _attempt: int, _deadline: float) -> Outcome:
    await asyncio.sleep(3600)
    return Completed(1.0)
