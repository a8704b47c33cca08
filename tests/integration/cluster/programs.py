"""Programs of worker processes for tests: what an attempt does stands in its row."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise

import msgspec

from rollgym.cluster.link import Link
from rollgym.engine import Worker, WorkItem
from rollgym.records import Completed, Outcome
from rollgym.records.version import PolicyTurn
from rollgym.store import RefusedError

PROGRAM = "tests.integration.cluster.programs:worker_of_rows"
REFUSING = "tests.integration.cluster.programs:refusing"


@asynccontextmanager
async def worker_of_rows(options: bytes, link: Link) -> AsyncIterator[Worker]:
    """Completes attempts with its process and its number as result."""

    async def work(item: WorkItem, attempt: int, deadline: float) -> Outcome:
        began, row = time.monotonic(), item.task.row
        link.note("started", f"{os.getpid()} {item.task.index} {attempt}".encode())
        match row.get("does", str, "complete"):
            case "wait":
                await asyncio.get_running_loop().create_future()
            case "wait once" if attempt == 1:
                await asyncio.get_running_loop().create_future()
            case "kill":
                os.kill(os.getpid(), signal.SIGSEGV)
            case "block once" if attempt == 1:
                time.sleep(600)  # noqa: ASYNC251 - a plug-in that blocks
            case "store":
                stored = await link.call("store", item.task.row.raw)
                return Completed(1.0, result=msgspec.Raw(stored))
            case "turns":
                return await _turns(began)
        result = {"process": os.getpid(), "number": options.decode(), "attempt": attempt}
        return Completed(1.0, result=msgspec.Raw(msgspec.json.encode(result)))

    yield work


async def _turns(began: float) -> Outcome:
    """Some turns, and between which times of the machine each of them was."""
    times = [time.monotonic()]
    for _ in range(3):
        await asyncio.sleep(0.004)
        times.append(time.monotonic())
    turns = tuple(
        PolicyTurn(start=start - began, seconds=end - start) for start, end in pairwise(times)
    )
    return Completed(1.0, turns=turns, result=msgspec.Raw(msgspec.json.encode(times)))


@asynccontextmanager
async def refusing(_: bytes, link: Link) -> AsyncIterator[Worker]:
    raise RefusedError("its port is in use")
    yield worker_of_rows(b"", link)  # type: ignore[unreachable]
