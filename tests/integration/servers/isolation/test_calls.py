"""What a call gives back, and what it says when it cannot."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from rollgym.servers.isolation import (
    ArgumentsError,
    CallFailedError,
    CallTimeoutError,
    CpuTimeExceededError,
    IsolatedWorkers,
    IsolationError,
    WorkerDiedError,
    WorkerStartError,
)
from tests.cases import for_each
from tests.integration.servers.isolation import functions
from tests.integration.servers.isolation.harness import PATIENCE, Run

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits memory")


def test_a_call_returns_what_the_function_returns(run: Run) -> None:
    value = {"text": "né", "numbers": [1, 2.5, None, True], "bytes": b"\x00\xff", "nan": 2**63}

    async def scenario(workers: IsolatedWorkers) -> None:
        assert await workers.call(value, timeout=PATIENCE) == value

    run(functions.echo, scenario)


def test_ten_megabytes_go_there_and_back(run: Run) -> None:
    value = os.urandom(10_000_000)

    async def scenario(workers: IsolatedWorkers) -> None:
        assert await workers.call(value, timeout=PATIENCE) == value

    run(functions.echo, scenario)


def test_the_function_runs_in_another_process_and_its_module_is_not_imported_here(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "plugin_of_this_test.py").write_text("import os\ndef f(): return os.getpid()\n")
    monkeypatch.syspath_prepend(tmp_path)

    async def scenario(workers: IsolatedWorkers) -> None:
        assert await workers.call(timeout=PATIENCE) != os.getpid()

    run("plugin_of_this_test:f", scenario)
    assert "plugin_of_this_test" not in sys.modules


def test_a_worker_searches_modules_where_its_parent_does_and_nowhere_else(run: Run) -> None:
    async def scenario(workers: IsolatedWorkers) -> None:
        assert await workers.call(timeout=PATIENCE) == sys.path

    run(functions.search_path, scenario)


def test_a_worker_does_not_see_the_credentials_in_the_environment(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "secret")

    async def scenario(workers: IsolatedWorkers) -> None:
        variables = await workers.call(timeout=PATIENCE)
        assert "secret" not in variables.values()
        assert variables["PATH"] == os.environ["PATH"]
        assert variables["ASKED_FOR"] == "yes"

    run(functions.environment, scenario, environment={"ASKED_FOR": "yes"})


def test_an_exception_comes_back_with_its_type_message_and_place(run: Run) -> None:
    async def scenario(workers: IsolatedWorkers) -> None:
        with pytest.raises(CallFailedError, match="divide raised ZeroDivisionError") as caught:
            await workers.call(1, 0, timeout=PATIENCE)
        assert caught.value.error_type == "ZeroDivisionError"
        assert caught.value.error_message == "division by zero"
        assert "in divide" in caught.value.traceback
        assert "child.py" not in caught.value.traceback
        assert await workers.call(1, 2, timeout=PATIENCE) == 0.5

    run(functions.divide, scenario)


@for_each(
    ("how", "says"),
    [
        ("unprintable", "Unprintable: .its message cannot be shown: ValueError"),
        ("surrogate", r"ValueError: \\ud800"),
        ("exit", "SystemExit: leaving"),
        ("long", "ValueError: x{2000}\n"),
        ("unencodable result", "TypeError: Encoding objects of type object is unsupported"),
    ],
)
def test_whatever_the_function_raises_or_returns_leaves_the_worker_usable(
    run: Run, how: str, says: str
) -> None:
    async def scenario(workers: IsolatedWorkers) -> None:
        for _ in range(2):
            with pytest.raises(CallFailedError, match=says):
                await workers.call(how, timeout=PATIENCE)

    run(functions.fail, scenario)


def test_a_result_beyond_the_limit_is_refused_by_name(run: Run) -> None:
    async def scenario(workers: IsolatedWorkers) -> None:
        with pytest.raises(CallFailedError, match="bytes are more than the limit of 67108864"):
            await workers.call(timeout=PATIENCE)

    run(functions.too_large, scenario)


@for_each("argument", [object(), 2**64, "\ud800", bytes(1 << 27)])
def test_arguments_that_cannot_be_sent_are_refused_before_a_worker_starts(
    run: Run, argument: object
) -> None:
    async def scenario(workers: IsolatedWorkers) -> None:
        with pytest.raises(ArgumentsError, match="arguments for .*:echo cannot be sent"):
            await workers.call(argument, timeout=PATIENCE)

    run(functions.echo, scenario, start_timeout=0.001)


def test_prints_of_any_sort_do_not_disturb_the_answer(run: Run) -> None:
    async def scenario(workers: IsolatedWorkers) -> None:
        for _ in range(3):
            assert await workers.call(timeout=PATIENCE) == "answer"

    run(functions.speak, scenario)


@for_each(
    ("garbage", "says"),
    [
        (b"\xff" * 16, "sent bytes that are not a message"),
        (b"\x00\x00\x00\x01\xc1", "sent an unreadable result"),
    ],
)
def test_a_function_that_scribbles_over_the_pipe_breaks_its_own_call_only(
    run: Run, garbage: bytes, says: str
) -> None:
    async def scenario(workers: IsolatedWorkers) -> None:
        with pytest.raises(IsolationError, match=says):
            await workers.call(garbage, timeout=PATIENCE)
        assert await workers.call(b"", timeout=PATIENCE) == "answer"

    run(functions.scribble, scenario)


def test_the_function_reads_an_empty_standard_input(run: Run) -> None:
    async def scenario(workers: IsolatedWorkers) -> None:
        assert await workers.call(timeout=PATIENCE) == ""

    run(functions.read_input, scenario)


def test_a_function_that_never_returns_from_c_is_killed_at_the_deadline(
    run: Run, tmp_path: Path
) -> None:
    async def scenario(workers: IsolatedWorkers) -> None:
        with pytest.raises(CallTimeoutError, match="no result within 0.5 s and was killed"):
            await workers.call(timeout=0.5)

    run(functions.hang_in_c, scenario)


def test_processor_time_is_limited_apart_from_time_on_the_clock(run: Run) -> None:
    async def scenario(workers: IsolatedWorkers) -> None:
        with pytest.raises(CpuTimeExceededError, match="used up its 0.2 s of processor time"):
            await workers.call(timeout=PATIENCE, cpu_timeout=0.2)

    run(functions.hang_in_c, scenario)


def test_sleeping_uses_no_processor_time(run: Run) -> None:
    async def scenario(workers: IsolatedWorkers) -> None:
        assert await workers.call(0.5, timeout=PATIENCE, cpu_timeout=0.3) == 0.5

    run(functions.sleep, scenario)


def test_processor_time_of_one_call_does_not_count_for_the_next(run: Run) -> None:
    async def scenario(workers: IsolatedWorkers) -> None:
        for _ in range(4):
            await workers.call(0.3, timeout=PATIENCE, cpu_timeout=0.9)

    run(functions.compute, scenario, workers=1)


@for_each(
    ("how", "says"),
    [
        ("exit", "ended with exit status 3 while it ran .*\n.*about to leave"),
        ("segfault", r"was ended by SIGSEGV \(Segmentation fault.*\n(.*\n)*.*in die"),
        ("kill", r"was killed with SIGKILL, most often .* for lack of memory"),
    ],
)
def test_a_death_is_told_in_words_with_the_last_output(run: Run, how: str, says: str) -> None:
    async def scenario(workers: IsolatedWorkers) -> None:
        for _ in range(2):
            with pytest.raises(WorkerDiedError, match=says):
                await workers.call(how, timeout=PATIENCE)

    run(functions.die, scenario)


@linux_only
def test_memory_beyond_the_limit_is_an_exception_in_the_function(run: Run) -> None:
    async def scenario(workers: IsolatedWorkers) -> None:
        with pytest.raises(CallFailedError, match="MemoryError"):
            await workers.call(2 << 30, timeout=PATIENCE)
        assert await workers.call(1 << 20, timeout=PATIENCE) == 1 << 20

    run(functions.allocate, scenario, memory_bytes=1 << 30)


@for_each(
    ("function", "says"),
    [
        ("no.such.module:function", "cannot import .*ModuleNotFoundError: No module named 'no'"),
        (f"{functions.__name__}:missing", "AttributeError: .* has no attribute 'missing'"),
        (f"{functions.__name__}:not_callable", "TypeError: .*not_callable is not a plain function"),
        (f"{functions.__name__}:coroutine", "TypeError: .*coroutine is not a plain function"),
        (
            "tests.integration.servers.isolation.unimportable:f",
            "RuntimeError: no such licence",
        ),
    ],
)
def test_a_function_that_cannot_be_imported_is_named_with_the_reason(
    run: Run, function: str, says: str
) -> None:
    async def scenario(workers: IsolatedWorkers) -> None:
        with pytest.raises(WorkerStartError, match=says):
            await workers.call(timeout=PATIENCE)

    run(function, scenario)


def test_a_start_that_takes_too_long_is_given_up(run: Run, tmp_path: Path) -> None:
    async def scenario(workers: IsolatedWorkers) -> None:
        with pytest.raises(WorkerStartError):
            await workers.call(timeout=PATIENCE)

    run(functions.echo, scenario, start_timeout=0.001)


def test_a_start_without_an_interpreter_says_so(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(workers: IsolatedWorkers) -> None:
        with pytest.raises(WorkerStartError, match="no process could be started.*FileNotFound"):
            await workers.call(timeout=PATIENCE)

    monkeypatch.setattr(sys, "executable", "/no/such/python")
    run(functions.echo, scenario)


def test_an_answer_that_came_while_the_loop_was_held_up_still_counts(run: Run) -> None:
    async def scenario(workers: IsolatedWorkers) -> None:
        await workers.call(0.0, timeout=PATIENCE)
        call = asyncio.ensure_future(workers.call(0.05, timeout=0.2))
        await asyncio.sleep(0.01)
        functions.sleep(1.5)
        assert await call == 0.05

    run(functions.sleep, scenario)
