"""Scenarios against real workers: on the loop of the product, and in campaigns on the other one."""

import asyncio
import fcntl
import os
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvloop

from rollgym.servers.isolation import IsolatedWorkers

PATIENCE = 30.0
FUNCTIONS = "tests.integration.servers.isolation.functions"

Scenario = Callable[[IsolatedWorkers], Awaitable[None]]
Run = Callable[..., None]


def name_of(function: Callable[..., Any]) -> str:
    return f"{function.__module__}:{function.__name__}"


@pytest.fixture(params=["uvloop", pytest.param("asyncio", marks=pytest.mark.campaign)])
def run(request: pytest.FixtureRequest) -> Run:
    """Runs a scenario with workers of a function, then closes them."""

    def run_scenario(
        function: Callable[..., Any] | str, scenario: Scenario, **options: Any
    ) -> None:
        async def main() -> None:
            name = function if isinstance(function, str) else name_of(function)
            options.setdefault("start_timeout", PATIENCE)
            async with IsolatedWorkers(name, **options) as workers:
                await scenario(workers)

        factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(main())

    return run_scenario


async def locked(path: Path) -> None:
    """Wait until a worker has said that it holds the lock."""
    until = time.monotonic() + PATIENCE
    while not _written(path):
        assert time.monotonic() < until, "nobody took the lock"
        await asyncio.sleep(0.01)


def _written(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


def assert_released(path: Path) -> None:
    """The processes that held the lock are dead, or will be in a moment."""
    until = time.monotonic() + PATIENCE
    with _opened(path) as descriptor:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                assert time.monotonic() < until, "a process holds the lock still"
                time.sleep(0.01)
            else:
                return


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDWR)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
