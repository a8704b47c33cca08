"""When workers start, who runs on them, and that none is left behind."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from rollgym.servers.isolation import (
    CallTimeoutError,
    IsolatedWorkers,
    NoFreeWorkerError,
    WorkerDiedError,
    WorkersClosedError,
    child,
)
from rollgym.servers.isolation.child import WorkerCall, WorkerSetup, framed
from tests.cases import for_each
from tests.integration.servers.isolation import functions
from tests.integration.servers.isolation.harness import (
    PATIENCE,
    Run,
    assert_released,
    locked,
    name_of,
)

PARENT = f"""
import asyncio, sys
from rollgym.servers.isolation import IsolatedWorkers

async def main():
    async with IsolatedWorkers(sys.argv[1]) as workers:
        await workers.call(*sys.argv[2:], timeout={PATIENCE})
        await asyncio.sleep({PATIENCE})

asyncio.run(main())
"""


def test_calls_start_in_the_order_in_which_they_came(run: Run, tmp_path: Path) -> None:
    path = str(tmp_path / "log")

    async def scenario(workers: IsolatedWorkers) -> None:
        calls = (workers.call(path, str(n), timeout=PATIENCE) for n in range(200))
        await asyncio.gather(*calls)

    run(functions.log_line, scenario, workers=1)
    assert Path(path).read_text().split() == [str(n) for n in range(200)]


def test_many_calls_share_two_processes_and_each_gets_its_own_answer(run: Run) -> None:
    async def scenario(workers: IsolatedWorkers) -> None:
        calls = (workers.call([n, os.urandom(n)], timeout=PATIENCE) for n in range(300))
        answers = await asyncio.gather(*calls)
        assert [answer[0] for answer in answers] == list(range(300))
        assert [len(answer[1]) for answer in answers] == list(range(300))

    run(functions.echo, scenario, workers=2)


def test_calls_one_after_the_other_need_one_process_however_many_are_allowed(run: Run) -> None:
    async def scenario(workers: IsolatedWorkers) -> None:
        assert len({await workers.call(timeout=PATIENCE) for _ in range(5)}) == 1

    run(functions.process_id, scenario, workers=4)


def test_a_worker_is_replaced_after_many_calls(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rollgym.servers.isolation.workers.MAX_CALLS", 3)

    async def scenario(workers: IsolatedWorkers) -> None:
        processes = [await workers.call(timeout=PATIENCE) for _ in range(7)]
        assert [processes.count(process) for process in dict.fromkeys(processes)] == [3, 3, 1]

    run(functions.process_id, scenario)


def test_a_worker_that_died_while_idle_is_replaced(run: Run) -> None:
    async def scenario(workers: IsolatedWorkers) -> None:
        first = await workers.call(timeout=PATIENCE)
        os.kill(first, signal.SIGKILL)
        try:
            second = await workers.call(timeout=PATIENCE)
        except WorkerDiedError:  # its death was not known yet
            second = await workers.call(timeout=PATIENCE)
        assert second != first

    run(functions.process_id, scenario)


def test_other_calls_go_on_while_one_is_killed(run: Run) -> None:
    async def scenario(workers: IsolatedWorkers) -> None:
        long = asyncio.ensure_future(workers.call(1000, timeout=1))
        for _ in range(20):
            assert await workers.call(0.01, timeout=PATIENCE) == 0.01
        with pytest.raises(CallTimeoutError):
            await long
        assert await workers.call(0.0, timeout=PATIENCE) == 0.0

    run(functions.sleep, scenario, workers=2)


def test_cancelling_a_call_kills_its_work_and_frees_its_slot(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "lock"

    async def scenario(workers: IsolatedWorkers) -> None:
        call = asyncio.ensure_future(workers.call(str(path), timeout=PATIENCE))
        await locked(path)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert_released(path)
        with pytest.raises(CallTimeoutError):
            await workers.call(str(path), timeout=0.3)

    run(functions.hold_lock, scenario, workers=1)


@pytest.mark.campaign
def test_cancelling_calls_at_any_moment_leaves_the_slots_as_they_were(run: Run) -> None:
    async def scenario(workers: IsolatedWorkers) -> None:
        for step in range(20):
            calls = [asyncio.ensure_future(workers.call(0.01, timeout=PATIENCE)) for _ in range(6)]
            await asyncio.sleep(step / 100)
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)
        answers = (workers.call(n / 1000, timeout=PATIENCE) for n in range(6))
        assert await asyncio.gather(*answers) == [n / 1000 for n in range(6)]

    run(functions.sleep, scenario, workers=2)


def test_a_call_that_finds_the_queue_full_is_refused_at_once(run: Run) -> None:
    async def scenario(workers: IsolatedWorkers) -> None:
        calls = [asyncio.ensure_future(workers.call(1000, timeout=PATIENCE)) for _ in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(NoFreeWorkerError, match="2 calls of .*:sleep are waiting"):
            await workers.call(0, timeout=PATIENCE)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)

    run(functions.sleep, scenario, workers=1, queue_limit=2)


def test_waiting_for_a_worker_has_a_bound_of_its_own(run: Run) -> None:
    async def scenario(workers: IsolatedWorkers) -> None:
        first = asyncio.ensure_future(workers.call(0.5, timeout=PATIENCE))
        await asyncio.sleep(0)
        with pytest.raises(NoFreeWorkerError, match=r"became free within 0\.05 s"):
            await workers.call(0.0, timeout=PATIENCE, wait_timeout=0.05)
        assert await first == 0.5
        assert await workers.call(0.0, timeout=PATIENCE, wait_timeout=0.05) == 0.0

    run(functions.sleep, scenario, workers=1)


def test_waiting_does_not_count_as_running(run: Run) -> None:
    async def scenario(workers: IsolatedWorkers) -> None:
        await workers.call(0.0, timeout=PATIENCE)
        calls = (workers.call(0.4, timeout=3.0) for _ in range(9))
        assert await asyncio.gather(*calls) == [0.4] * 9

    run(functions.sleep, scenario, workers=1)


@for_each("ending", ["hang", "crash"])
def test_what_a_worker_started_dies_with_it(run: Run, tmp_path: Path, ending: str) -> None:
    path = tmp_path / "lock"

    async def scenario(workers: IsolatedWorkers) -> None:
        with pytest.raises((CallTimeoutError, WorkerDiedError)):
            await workers.call(str(path), ending, timeout=1.0)

    run(functions.hold_lock_in_grandchild, scenario)
    assert_released(path)


def test_what_a_worker_left_running_dies_when_the_workers_are_closed(
    run: Run, tmp_path: Path
) -> None:
    path = tmp_path / "lock"

    async def scenario(workers: IsolatedWorkers) -> None:
        await workers.call(str(path), "return", timeout=PATIENCE)

    run(functions.hold_lock_in_grandchild, scenario)
    assert_released(path)


def test_closing_while_busy_kills_the_work_and_ends_every_call(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "lock"

    async def scenario(workers: IsolatedWorkers) -> None:
        calls = [
            asyncio.ensure_future(workers.call(str(path), timeout=PATIENCE)) for _ in range(50)
        ]
        await locked(path)
        await asyncio.gather(workers.close(), workers.close())
        assert_released(path)
        for call in calls:
            with pytest.raises(WorkersClosedError, match="the workers of .*:hold_lock were closed"):
                await call
        with pytest.raises(WorkersClosedError):
            await workers.call(str(path), timeout=PATIENCE)
        await workers.close()

    run(functions.hold_lock, scenario, workers=2)


def test_closing_while_a_worker_starts_does_not_wait_for_it(run: Run) -> None:
    async def scenario(workers: IsolatedWorkers) -> None:
        for _ in range(3):
            call = asyncio.ensure_future(workers.call(1, timeout=PATIENCE))
            await asyncio.sleep(0)
            await workers.close()
            with pytest.raises(WorkersClosedError):
                await call

    run(functions.echo, scenario)


def test_closing_ends_idle_workers_also_with_threads_left_in_them(run: Run) -> None:
    processes: list[int] = []

    async def scenario(workers: IsolatedWorkers) -> None:
        await workers.call(timeout=PATIENCE)
        processes.extend(worker.process_id for worker in workers._processes)

    run(functions.leave_a_thread, scenario)
    with pytest.raises(ProcessLookupError):
        os.kill(processes[0], 0)


@for_each("function", [functions.hold_lock, functions.hold_lock_idle])
def test_a_parent_killed_by_force_leaves_no_worker(tmp_path: Path, function: object) -> None:
    path = tmp_path / "lock"
    assert callable(function)
    parent = subprocess.Popen([sys.executable, "-c", PARENT, name_of(function), path])
    try:
        asyncio.run(locked(path))
    finally:
        parent.kill()
        parent.wait()
    assert_released(path)


def test_a_worker_that_nobody_kills_ends_itself_soon_after_the_deadline() -> None:
    setup = WorkerSetup(name_of(functions.hang_in_c), sys.path, os.getpid(), None)
    command = [sys.executable, "-P", child.__file__, msgspec.json.encode(setup).decode()]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdin is not None
            process.stdin.write(framed(WorkerCall((), 0.1, None)))
            process.stdin.flush()
            assert process.wait(PATIENCE) == -signal.SIGALRM
        finally:
            process.kill()
