"""The life of a run: turns, cancellation, and failures that only the machine causes."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import pytest
import uvloop

from resources_servers.code_gen import execution
from resources_servers.code_gen.execution import ProgramLimits, RunEnding, SandboxError
from resources_servers.code_gen.sandbox import Program, Sandbox
from resources_servers.code_gen.tests.running import (
    ALL_WALLS,
    WITHOUT_NAMESPACES,
    mark_processes,
    require_layers,
    wait_for,
)
from rollgym.servers.isolation import NoFreeWorkerError

SLEEPER = Program("import time\ntime.sleep(1000)")
REPOSITORY = Path(__file__).parents[3]

both = pytest.mark.parametrize(
    "layers", [ALL_WALLS, WITHOUT_NAMESPACES], ids=["all walls", "without namespaces"]
)


async def marked_soon(count: int, mark: str) -> list[int]:
    return await asyncio.to_thread(wait_for, count, mark)


@both
def test_a_cancelled_run_leaves_no_process(
    layers: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    require_layers(layers)
    mark = mark_processes(monkeypatch)

    async def scenario() -> None:
        task = asyncio.create_task(Sandbox(layers).run(SLEEPER, ProgramLimits()))
        await marked_soon(2, mark)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await marked_soon(0, mark)

    asyncio.run(scenario())


def test_a_run_that_is_cancelled_at_any_moment_leaves_no_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    require_layers(ALL_WALLS)
    mark = mark_processes(monkeypatch)

    async def scenario() -> None:
        sandbox = Sandbox(ALL_WALLS)
        for step in range(20):
            task = asyncio.create_task(sandbox.run(SLEEPER, ProgramLimits()))
            await asyncio.sleep(0.003 * step)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        await marked_soon(0, mark)

    asyncio.run(scenario())


@both
def test_programs_die_with_a_judge_that_is_killed(layers: tuple[str, ...], tmp_path: Path) -> None:
    require_layers(layers)
    mark = f"mark-{tmp_path.name}-{os.getpid()}-{time.monotonic_ns()}"
    script = f"""
import asyncio
from resources_servers.code_gen import execution
from resources_servers.code_gen.execution import ProgramLimits
from resources_servers.code_gen.sandbox import Program, Sandbox
execution._FLAGS += ("-X", {mark!r})
program = Program("import time; time.sleep(1000)")
asyncio.run(Sandbox({layers!r}).run(program, ProgramLimits(wall_seconds=1000)))
"""
    with subprocess.Popen([sys.executable, "-c", script], cwd=REPOSITORY) as judge:
        # The script is the judge's own command line.
        wait_for(3, mark)
        judge.kill()
    wait_for(0, mark)


def test_at_most_so_many_programs_run_at_a_time_and_the_others_wait() -> None:
    require_layers(ALL_WALLS)

    async def scenario() -> None:
        sandbox = Sandbox(ALL_WALLS, workers=1)
        ended: list[int] = []

        async def one(number: int) -> None:
            await sandbox.run(Program("import time; time.sleep(0.1)"), ProgramLimits())
            ended.append(number)

        began = time.monotonic()
        await asyncio.gather(*(one(number) for number in range(4)))
        assert time.monotonic() - began >= 0.4
        assert ended == [0, 1, 2, 3]

    asyncio.run(scenario())


def test_a_cancelled_run_gives_its_turn_to_the_next() -> None:
    require_layers(ALL_WALLS)

    async def scenario() -> None:
        sandbox = Sandbox(ALL_WALLS, workers=1)
        sleeping = asyncio.create_task(sandbox.run(SLEEPER, ProgramLimits(wall_seconds=1000)))
        next_one = asyncio.create_task(sandbox.run(Program("print(1)"), ProgramLimits()))
        await asyncio.sleep(0.1)
        sleeping.cancel()
        assert (await next_one).answer == b"1\n"

    asyncio.run(scenario())


def test_the_queue_is_bounded_in_length_and_in_time() -> None:
    require_layers(ALL_WALLS)

    async def scenario() -> None:
        sandbox = Sandbox(ALL_WALLS, workers=1, queue_limit=1, queue_timeout=0.2)
        running = asyncio.create_task(sandbox.run(SLEEPER, ProgramLimits()))
        await asyncio.sleep(0)
        waiting = asyncio.create_task(sandbox.run(SLEEPER, ProgramLimits()))
        await asyncio.sleep(0)
        with pytest.raises(NoFreeWorkerError, match="waiting for a worker already"):
            await sandbox.run(SLEEPER, ProgramLimits())
        with pytest.raises(NoFreeWorkerError, match="became free within"):
            await waiting
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(scenario())


def test_programs_run_on_uvloop_as_well() -> None:
    require_layers(ALL_WALLS)
    program = Program("print(input()[::-1])", stdin="abc\n")
    run = uvloop.run(Sandbox(ALL_WALLS).run(program, ProgramLimits()))
    assert (run.ending, run.answer) == (RunEnding.FINISHED, b"cba\n")


def test_a_large_input_is_read_by_those_who_want_it_and_hinders_nobody_else() -> None:
    require_layers(ALL_WALLS)
    text = "x" * 5_000_000
    reading = Program("import sys; print(len(sys.stdin.read()))", stdin=text)
    ignoring = Program("print('no')", stdin=text)
    closing = Program("import os; os.close(0); print('no')", stdin=text)
    sandbox = Sandbox(ALL_WALLS)
    answers = [
        asyncio.run(sandbox.run(program, ProgramLimits())).answer
        for program in (reading, ignoring, closing)
    ]
    assert answers == [b"5000000\n", b"no\n", b"no\n"]


# Faults


def executable(path: Path, text: str) -> str:
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def fault(sandbox: Sandbox) -> str:
    with pytest.raises(SandboxError) as caught:
        asyncio.run(sandbox.run(Program("print(1)"), ProgramLimits()))
    return str(caught.value)


def test_a_launcher_that_cannot_be_started_is_a_fault() -> None:
    assert "could not be started" in fault(Sandbox((), python="/nowhere/python"))


def test_a_launcher_that_breaks_before_the_program_starts_is_a_fault(tmp_path: Path) -> None:
    broken = executable(tmp_path / "broken", "#!/bin/sh\necho 'no such library' >&2\nexit 127\n")
    assert "no such library" in fault(Sandbox((), python=broken))


def test_a_launcher_that_never_gets_ready_is_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution, "START_TIMEOUT", 0.2)
    stuck = executable(tmp_path / "stuck", "#!/bin/sh\nexec sleep 1000\n")
    assert "could not start the program" in fault(Sandbox((), python=stuck))


def test_a_launcher_that_only_claims_to_have_run_the_program_is_a_fault(tmp_path: Path) -> None:
    empty = executable(tmp_path / "empty", "#!/bin/sh\nexit 0\n")
    assert "could not start the program" in fault(Sandbox((), python=empty))


def test_a_program_that_the_machine_kills_is_a_fault_and_no_verdict(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cases: Iterable[tuple[int, str]] = [
        (0, "another process killed the launcher"),
        (1, "the system killed the program"),
    ]
    for victim, message in cases:
        require_layers(ALL_WALLS)
        mark = mark_processes(monkeypatch)

        async def scenario() -> None:
            task = asyncio.create_task(Sandbox(ALL_WALLS).run(SLEEPER, ProgramLimits()))
            processes = await marked_soon(2, mark)
            await asyncio.sleep(0.2)
            os.kill(processes[victim], signal.SIGKILL)
            with pytest.raises(SandboxError, match=message):
                await task
            await marked_soon(0, mark)

        asyncio.run(scenario())
