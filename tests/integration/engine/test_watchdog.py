"""A blocked event loop is reported while it is blocked."""

import asyncio
import logging
import time

import pytest

from rollgym.engine import run, runner


def test_a_worker_that_blocks_the_loop_is_reported(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "PING_INTERVAL", 0.01)
    monkeypatch.setattr(runner, "BLOCKED_AFTER", 0.05)

    async def blocks_the_loop() -> None:
        deadline = time.monotonic() + 60
        while not caplog.records and time.monotonic() < deadline:
            time.sleep(0.01)  # noqa: ASYNC251

    with caplog.at_level(logging.WARNING):
        run(blocks_the_loop())
    assert "the event loop has been blocked for 0 s" in caplog.text
    assert "in blocks_the_loop" in caplog.text


def test_a_loop_that_is_not_blocked_is_not_reported(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "PING_INTERVAL", 0.01)

    with caplog.at_level(logging.WARNING):
        run(asyncio.sleep(0.1))
    assert caplog.records == []
