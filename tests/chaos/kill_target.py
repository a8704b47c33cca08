"""A collecting process for tests that kill it. It logs the key of every worker that it starts."""

import asyncio
import os
import random
import sys
from pathlib import Path

from rollgym.engine import Fixed, Policy, WorkItem, collect, run
from rollgym.records import Completed, Outcome, ToolError
from rollgym.store import open_run
from tests.builders import tasks
from tests.collecting import QUICK_RETRIES

REPEATS, CONCURRENCY = 4, 16


async def main(directory: Path, starts: Path, count: int) -> int:
    log = os.open(starts, os.O_CREAT | os.O_WRONLY | os.O_APPEND)

    async def worker(item: WorkItem, attempt: int, _deadline: float) -> Outcome:
        os.write(log, f"{item.task.index} {item.repeat}\n".encode())
        chance = random.Random(item.seed + attempt)
        await asyncio.sleep(chance.uniform(0.0, 0.03))
        if attempt < 3 and chance.random() < 0.05:
            raise ToolError("a temporary failure")
        return Completed(float(chance.random() < 0.5))

    with open_run(directory, tasks(count, REPEATS), seed=7) as store:
        policy = Policy(concurrency=Fixed(CONCURRENCY), retry=QUICK_RETRIES)
        coverage = await collect(store.inputs, worker, store, policy)
    print(coverage, coverage.describe_tasks())
    return coverage.exit_status


if __name__ == "__main__":
    sys.exit(run(main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))))
