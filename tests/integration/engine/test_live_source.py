"""A source that grows while it is collected, and the listener that hears of every record."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

from rollgym.engine import AttemptRecorded, LiveSource, WorkItem, collect, run
from rollgym.records import Completed, Outcome, RolloutKey, Task, ToolError
from rollgym.store import RunStore
from tests.builders import make_run, read_json_lines, tasks
from tests.collecting import QUICK_SYNC, policy


class Fed(LiveSource):
    """Gives the tasks that it was fed, after the run has grown by them."""

    def __init__(self, store: RunStore) -> None:
        self.more: Callable[[], None] = lambda: None
        self._store = store
        self._fed: deque[Task] = deque()
        self._ended = False

    @property
    def groups(self) -> int:
        return self._store.inputs.groups

    @property
    def expected(self) -> int:
        return self._store.inputs.expected

    def __iter__(self) -> Iterator[Task | None]:
        while not self._ended:
            yield self._fed.popleft() if self._fed else None

    def listen(self, more: Callable[[], None]) -> None:
        self.more = more

    async def feed(self, fed: list[Task]) -> None:
        await self._store.grow(fed)
        self._fed.extend(fed)
        self.more()

    def end(self) -> None:
        self._ended = True
        self.more()


async def work(item: WorkItem, attempt: int, _deadline: float) -> Outcome:
    if item.task.index == 1 and attempt == 1:
        raise ToolError("once")
    return Completed(1.0)


def test_a_collection_goes_on_while_its_source_has_more_later(tmp_path: Path) -> None:
    heard: list[tuple[int, int, bool]] = []
    finished: asyncio.Queue[int] = asyncio.Queue()

    def listen(event: AttemptRecorded, last: bool) -> None:
        heard.append((event.attempt.task, event.attempt.repeat, last))
        if last:
            finished.put_nowait(event.attempt.task)

    async def collecting() -> None:
        with make_run(tmp_path, 0, sync=QUICK_SYNC) as store:
            source = Fed(store)

            async def feeding() -> None:
                for number in range(3):
                    await source.feed(list(tasks(number + 1, 2))[number:])
                    assert await asyncio.wait_for(finished.get(), 30) == number
                source.end()

            feeder = asyncio.create_task(feeding())
            coverage = await collect(source, work, store, policy(), listener=listen)
            await feeder
            assert (coverage.expected, coverage.completed, coverage.groups_complete) == (6, 6, 3)

    run(collecting())
    assert [task for task, _, last in heard if last] == [0, 1, 2]
    assert len(heard) == len(read_json_lines(tmp_path / "journal.jsonl")) == 8


def test_a_suspect_of_a_live_source_runs_alone_before_the_others(tmp_path: Path) -> None:
    running: set[RolloutKey] = set()
    beside: dict[int, int] = {}

    async def alone(item: WorkItem, _attempt: int, _deadline: float) -> Outcome:
        running.add(item.key)
        await asyncio.sleep(0.01)
        beside[item.key.task] = len(running)
        running.discard(item.key)
        return Completed(1.0)

    async def collecting() -> None:
        with make_run(tmp_path, 0, sync=QUICK_SYNC) as store:
            # An earlier process was blocked by one of two rollouts.
            note = '{"rollouts": [[3, 0], [4, 0]], "where": "here"}'
            (tmp_path / ".journal.blocked").write_text(note)
            source = Fed(store)
            done = asyncio.Event()

            def listen(event: AttemptRecorded, _last: bool) -> None:
                if len(beside) == 8:
                    done.set()

            async def feeding() -> None:
                await source.feed(list(tasks(8)))
                await asyncio.wait_for(done.wait(), 30)
                source.end()

            feeder = asyncio.create_task(feeding())
            await collect(source, alone, store, policy(), listener=listen)
            await feeder

    run(collecting())
    assert sorted(beside) == list(range(8))
    assert (beside[3], beside[4]) == (1, 1)
