"""What can be said without starting a process."""

import asyncio
from typing import Any

import pytest

from rollgym.servers.isolation import IsolatedWorkers
from rollgym.servers.isolation.process import describe_exit
from rollgym.servers.isolation.workers import worker_environment
from tests.cases import for_each


@for_each("name", ["module", "module:", ":function", "a b:c", "a.:b", "a:b:c", "-a:b"])
def test_a_function_without_a_proper_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is not of the form 'package.module:function'"):
        IsolatedWorkers(name)


@for_each(
    "options",
    [
        {"workers": 0},
        {"queue_limit": -1},
        {"start_timeout": 0},
    ],
)
def test_numbers_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must be"):
        IsolatedWorkers("module:function", **options)


@for_each("seconds", [0, -1, float("nan"), float("inf"), 1e9])
@for_each("name", ["timeout", "cpu_timeout", "wait_timeout"])
def test_a_call_without_a_proper_bound_is_refused(name: str, seconds: float) -> None:
    bounds = {"timeout": 1.0} | {name: seconds}
    workers = IsolatedWorkers("module:function")
    with pytest.raises(ValueError, match=f"^{name} must be between 0 and"):
        asyncio.run(workers.call(**bounds))


def test_workers_that_were_never_used_close_at_once() -> None:
    asyncio.run(IsolatedWorkers("module:function").close())


def test_a_worker_inherits_what_python_needs_and_no_credentials() -> None:
    parent = {
        "PATH": "/bin",
        "LC_ALL": "C",
        "PYTHONPATH": "/plugins",
        "OMP_NUM_THREADS": "1",
        "OPENAI_API_KEY": "secret",
        "AWS_SECRET_ACCESS_KEY": "secret",
    }
    assert worker_environment(parent, {"MODE": "test"}) == {
        "PATH": "/bin",
        "LC_ALL": "C",
        "PYTHONPATH": "/plugins",
        "OMP_NUM_THREADS": "1",
        "PYTHONHASHSEED": "0",
        "MODE": "test",
    }


@for_each(
    ("status", "words"),
    [
        (0, "ended with exit status 0"),
        (-6, "was ended by SIGABRT (Aborted)"),
        (-9, "was killed with SIGKILL, most often by the system for lack of memory"),
        (-100, "was ended by signal 100"),
        (None, "closed its pipes"),
    ],
)
def test_an_exit_status_is_put_in_words(status: int | None, words: str) -> None:
    assert describe_exit(status).startswith(words.removesuffix("ed)"))
