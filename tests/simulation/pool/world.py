"""Runs a plan: the pool's lives on one directory, with workers and trainers."""

import asyncio
import json
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from rollgym.engine import Fixed, Policy, RetryPolicy, RetryRule, Stop, WorkItem
from rollgym.pool import RolloutPool, open_pool_run
from rollgym.pool.opening import any_row
from rollgym.records import Completed, Outcome, Row, Task, TaskError, derive_seed
from rollgym.store import StorageError
from tests.simulation.disk import SimulatedCrash, SimulatedDisk
from tests.simulation.loop import SimulatedLoop
from tests.simulation.pool.log import Acknowledged, Delivery, Made, PoolLog
from tests.simulation.pool.plan import PoolLife, PoolPlan
from tests.simulation.process import EPOCH, LIFE_SECONDS
from tests.simulation.storage import Storage

_MEMORY = Path("/dev/shm")
NO_RETRIES = RetryPolicy(default=RetryRule(1), by_kind={})


def run_pool_plan(plan: PoolPlan) -> tuple[PoolLog, dict[str, bytes]]:
    """Run every life; returns what happened, and the files at the end."""
    where = _MEMORY if _MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="simulation-", dir=where) as directory:
        storage, log = Storage(Path(directory) / "run"), PoolLog()
        for number, life in enumerate(plan.lives):
            if number == len(plan.lives) - 1:
                log.finished_before_last = finished(plan, storage.directory)
            _Life(plan, number, life, storage, log).live()
        files = {path.name: path.read_bytes() for path in storage.directory.glob("*.json*")}
        return log, files


def finished(plan: PoolPlan, directory: Path) -> set[int]:
    """The groups that have a reward for each of their rollouts, by the journal."""
    journal = directory / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True) if journal.exists() else []
    completed: dict[int, set[int]] = {}
    for line in lines:
        record = json.loads(line) if line.endswith(b"\n") else {}
        if record.get("outcome", {}).get("status") == "completed":
            completed.setdefault(record["task"], set()).add(record["repeat"])
    size = plan.settings.group_size
    return {task for task, repeats in completed.items() if len(repeats) == size}


class _Life:
    """One process of the pool, in a loop of its own."""

    def __init__(
        self, plan: PoolPlan, number: int, life: PoolLife, storage: Storage, log: PoolLog
    ) -> None:
        self._plan = plan
        self._number = number
        self._life = life
        self._storage = storage
        self._log = log
        self._loop = SimulatedLoop()
        self._disk = SimulatedDisk(
            storage,
            sync_seconds=life.sync_seconds,
            death=life.death,
            fault=life.fault,
            on_death=self._loop.kill,
        )
        self._pool: RolloutPool | None = None
        self._close: Callable[[], None] = lambda: None
        self._is_last = number == len(plan.lives) - 1

    def live(self) -> None:
        try:
            self._loop.run(self._main())
            ending = "stopped"
        except SimulatedCrash:
            ending = "died"
        except StorageError as error:
            ending = f"lost its disk: {error}"
        self._log.endings.append(ending)
        self._close()
        self._disk.bury()
        death = self._life.death
        if self._disk.crash is not None and death is not None and death.machine:
            self._storage.lose_power(Random(death.luck))

    async def _main(self) -> None:
        plan, life = self._plan, self._life
        dataset = [Task(index, Row.of({"row": index})) for index in range(plan.rows)]
        stop = Stop()
        store = open_pool_run(
            self._storage.directory,
            dataset,
            plan.settings,
            seed=plan.seed,
            disk=self._disk,
            sync=life.sync,
        )
        self._close = store.close
        self._pool = pool = RolloutPool(
            store,
            dataset,
            self._work,
            plan.settings,
            policy=Policy(
                concurrency=Fixed(life.concurrency),
                retry=NO_RETRIES,
                attempt_timeout=4.0,
                cancel_grace=0.5,
                drain_timeout=1.0,
                max_same_failures=0,
                refills=plan.refills,
            ),
            stop=stop,
            row_of=any_row,
            wall_clock=self._wall_clock,
            in_thread=_inline,
        )
        death = life.death
        if death is not None and death.at is not None:
            self._loop.call_at(death.at, self._disk.die, "in the middle of things")
        async with pool:
            training = asyncio.create_task(self._train())
            if self._is_last:
                with suppress(TimeoutError):
                    await asyncio.wait_for(training, life.stop)
                stop.request()
            else:
                self._loop.call_at(life.stop, stop.request)
            await pool.ended()
            training.cancel()
            with suppress(asyncio.CancelledError, StorageError):
                await training

    def _wall_clock(self) -> float:
        return EPOCH + LIFE_SECONDS * self._number + self._loop.time()

    # The workers.

    async def _work(self, item: WorkItem, attempt: int, _deadline: float) -> Outcome:
        key = (item.key.task, item.key.repeat)
        random = Random(derive_seed(self._plan.seed, "work", *key, attempt, self._number))
        first = self._version()
        fate = random.random()
        hangs = fate < self._plan.failures / 2
        await asyncio.sleep(1000.0 if hangs else random.uniform(0.0, self._plan.slowest))
        if fate < self._plan.failures:
            raise TaskError("as planned")
        coarse = float(random.randrange(2))
        # No two results are the same, so that each can be followed.
        unique = (attempt + 100 * self._number + 10_000 * key[1] + 100_000 * key[0]) / 1e12
        reward = coarse + unique
        self._log.made[reward] = Made(self._number, *key, reward, (first, self._version()))
        return Completed(reward)

    def _version(self) -> str:
        return "" if self._pool is None else self._pool.policy_version

    # The trainers, one after another.

    async def _train(self) -> None:
        deaths = iter((*self._life.trainer_deaths, None))
        for number, end in enumerate(deaths):
            random = Random(derive_seed(self._plan.seed, "train", self._number, number))
            trainer = asyncio.create_task(self._one_trainer(f"t{number % 2}", random))
            try:
                lifetime = None if end is None else max(0.0, end - self._loop.time())
                await asyncio.wait((trainer,), timeout=lifetime)
                if trainer.done():
                    trainer.result()
                    return
            finally:
                trainer.cancel()
                with suppress(asyncio.CancelledError, StorageError):
                    await trainer

    async def _one_trainer(self, name: str, random: Random) -> None:
        pool = self._pool
        assert pool is not None
        restarted = True
        while not self._done():
            most = random.choice((1, 1, 2, 5))
            wait = 0.0 if random.random() < 0.1 else 5.0
            groups = await pool.next_groups(name, most, wait, restarted=restarted)
            restarted = False
            for group in groups:
                delivery = Delivery(self._number, self._loop.time(), name, group)
                self._log.events.append(delivery)
            await asyncio.sleep(random.choice((0.0, 0.2, 3.0)))
            kept = [group.id for group in groups if self._is_last or random.random() < 0.8]
            answer = await pool.acknowledge(kept, name)
            assert not answer.unknown or not self._is_last, answer
            for acknowledged in answer.acknowledged:
                self._log.events.append(Acknowledged(self._number, self._loop.time(), acknowledged))
            if random.random() < 0.3:
                self._log.versions += 1
                await pool.set_policy_version(str(self._log.versions))
            if random.random() < 0.2:
                pool.control.retry_failed(omitted=random.random() < 0.5)
            if pool.status()["stopping"] and not groups:
                return

    def _done(self) -> bool:
        """In the last life: whether every group that was finished before it is done."""
        if not self._is_last or self._pool is None:
            return False
        state: Any = self._pool._state
        return all(state.is_done(number) for number in self._log.finished_before_last)


async def _inline(work: Callable[[], Any]) -> Any:
    """There are no threads in the simulation."""
    return work()
