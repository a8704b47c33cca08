import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from rollgym.servers.context import current_deadline, working_for
from webgym.models.evaluator import LoopThread


async def _thread_name() -> str:
    await asyncio.sleep(0)
    return threading.current_thread().name


def test_calls_share_one_thread_until_it_is_closed() -> None:
    loop = LoopThread("waiting")
    with ThreadPoolExecutor(4) as callers:
        names = list(callers.map(lambda _: loop.call(_thread_name(), 60), range(20)))
    assert set(names) == {"waiting"}
    assert [each.name for each in threading.enumerate()].count("waiting") == 1
    loop.close()
    assert "waiting" not in [each.name for each in threading.enumerate()]
    assert loop.call(_thread_name(), 60) == "waiting"
    loop.close()


def test_a_call_that_takes_too_long_is_cancelled() -> None:
    cancelled = threading.Event()

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    loop = LoopThread("waiting")
    with pytest.raises(TimeoutError):
        loop.call(wait(), 0.05)
    assert cancelled.wait(60)
    loop.close()


def test_closing_ends_a_call_that_is_under_way() -> None:
    loop, began = LoopThread("waiting"), threading.Event()

    async def wait() -> None:
        began.set()
        await asyncio.Event().wait()

    with ThreadPoolExecutor(1) as callers:
        call = callers.submit(loop.call, wait(), 60.0)
        assert began.wait(60)
        loop.close()
        with pytest.raises(RuntimeError, match="closed during the call"):
            call.result(60)


def test_the_deadline_of_the_caller_holds_there_as_well() -> None:
    async def deadline() -> float | None:
        return current_deadline()

    loop, due = LoopThread("waiting"), time.monotonic() + 5
    with working_for("1/0", due):
        assert loop.call(deadline(), 60) == due
    loop.close()
