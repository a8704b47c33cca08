"""A blocked event loop is named while it is blocked."""

import asyncio
import logging
import time

import pytest

from rollgym.engine import run, runner


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "PING_INTERVAL", 0.02)
    monkeypatch.setattr(runner, "BLOCKED_AFTER", 0.1)


def test_a_blocking_worker_is_named(caplog: pytest.LogCaptureFixture) -> None:
    async def blocks_the_loop() -> None:
        time.sleep(0.5)  # noqa: ASYNC251

    with caplog.at_level(logging.WARNING):
        run(blocks_the_loop())
    assert 1 <= len(caplog.records) <= 4
    assert "blocked for 0 s" in caplog.text
    assert "in blocks_the_loop" in caplog.text


def test_a_loop_that_gives_way_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    async def waits() -> None:
        await asyncio.sleep(0.5)

    with caplog.at_level(logging.WARNING):
        run(waits())
    assert caplog.records == []
